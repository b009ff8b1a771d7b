package inspect_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// cluster is what was read of a fleet.
func cluster(f *fleet.Fleet) *inspect.Cluster {
	l := f.Lists()
	return &inspect.Cluster{Nodes: l.Nodes, Pods: l.Pods, Slices: l.Slices, Claims: l.Claims, Classes: l.Classes, Rules: l.Rules}
}

func (s *scenario) why(t *testing.T, f *fleet.Fleet, q inspect.Question) *inspect.Answer {
	t.Helper()
	c := cluster(f)
	c.Unread = s.unread
	answer, err := c.Why(context.Background(), q)
	must.NoError(t, err)
	return answer
}

// TestWhy explains pods, one for each reason: the answer has the reason, and the
// words are those of the golden file.
func TestWhy(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			b := fleet.New(t)
			q := s.make(b)
			answer := s.why(t, b, q)
			test.Eq(t, s.verdict, answer.Verdict,
				test.Sprintf("verdict %s (%s), want %s", answer.Verdict, answer.Summary, s.verdict))
			s.check(t, answer)
			var text bytes.Buffer
			must.NoError(t, answer.WriteText(&text, false))
			golden.Bytes(t, "why/"+s.name+".txt", text.Bytes())
		})
	}
}

func (s *scenario) check(t *testing.T, answer *inspect.Answer) {
	t.Helper()
	for _, reason := range s.findings {
		test.True(t, slices.ContainsFunc(answer.Findings, func(f inspect.Finding) bool { return f.Reason == reason }),
			test.Sprintf("no finding %s in %+v", reason, answer.Findings))
	}
	for _, reason := range s.rulings {
		found := false
		for _, c := range answer.Claims {
			for _, r := range c.Requests {
				found = found || slices.ContainsFunc(r.RuledOut, func(r *inspect.Ruling) bool { return r.Reason == reason })
			}
		}
		test.True(t, found, test.Sprintf("nothing is ruled out for %s", reason))
	}
	for _, change := range s.changes {
		test.True(t, slices.ContainsFunc(answer.Remedies, func(r inspect.Remedy) bool { return r.Change == change }),
			test.Sprintf("no remedy %s in %+v", change, answer.Remedies))
	}
}

// TestWhyJSON: what programs read of an answer.
func TestWhyJSON(t *testing.T) {
	for _, s := range scenarios {
		if s.name == "mixed" || s.name == "prepare-failed" {
			b := fleet.New(t)
			golden.JSON(t, "why/"+s.name, s.why(t, b, s.make(b)))
		}
	}
}

// TestAnyNode: devices that belong to no node can be had on each.
func TestAnyNode(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "roce-sriov", "")
	f.Pending("nics", claim(count("nics", "hca.rdma.dev", 3)))
	c := cluster(f)
	for i := range c.Slices {
		c.Slices[i].Spec.NodeName, c.Slices[i].Spec.AllNodes = nil, new(true)
	}
	answer, err := c.Why(context.Background(), inspect.Question{Pod: fleet.Pod("nics")})
	must.NoError(t, err)
	test.Eq(t, "request nics wants 3 of hca.rdma.dev, and the best node, any, has 2", answer.Summary)
}
