package inspect_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

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
	if err != nil {
		t.Fatal(err)
	}
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
			if answer.Verdict != s.verdict {
				t.Errorf("verdict %s (%s), want %s", answer.Verdict, answer.Summary, s.verdict)
			}
			s.check(t, answer)
			var text bytes.Buffer
			if err := answer.WriteText(&text, false); err != nil {
				t.Fatal(err)
			}
			golden.Bytes(t, "why/"+s.name+".txt", text.Bytes())
		})
	}
}

func (s *scenario) check(t *testing.T, answer *inspect.Answer) {
	t.Helper()
	for _, reason := range s.findings {
		if !slices.ContainsFunc(answer.Findings, func(f inspect.Finding) bool { return f.Reason == reason }) {
			t.Errorf("no finding %s in %+v", reason, answer.Findings)
		}
	}
	for _, reason := range s.rulings {
		found := false
		for _, c := range answer.Claims {
			for _, r := range c.Requests {
				found = found || slices.ContainsFunc(r.RuledOut, func(r *inspect.Ruling) bool { return r.Reason == reason })
			}
		}
		if !found {
			t.Errorf("nothing is ruled out for %s", reason)
		}
	}
	for _, change := range s.changes {
		if !slices.ContainsFunc(answer.Remedies, func(r inspect.Remedy) bool { return r.Change == change }) {
			t.Errorf("no remedy %s in %+v", change, answer.Remedies)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	if want := "request nics wants 3 of hca.rdma.dev, and the best node, any, has 2"; answer.Summary != want {
		t.Errorf("%s; want %s", answer.Summary, want)
	}
}
