package inspect_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

var (
	claim = controlplane.Claim
	want  = controlplane.Want
)

func count(name, class string, n int64, selectors ...string) controlplane.Request {
	return controlplane.Request{Name: name, Class: class, Count: n, Selectors: selectors}
}

// cluster is what was read of a fleet.
func cluster(f *fleet.Fleet) *model.Cluster {
	l := f.Lists()
	return &model.Cluster{
		Nodes: l.Nodes, Pods: l.Pods, Slices: l.Slices, Claims: l.Claims, Classes: l.Classes, Rules: l.Rules,
	}
}

// scenario is a pod to explain, as an archive below testdata/why has it: question.yaml is the question, cluster.yaml
// the cluster, or else that of testdata/why/cluster.yaml. Its fields are the objects of Kubernetes, but for these.
type scenario struct {
	// name is that of the archive.
	name    string
	archive *golden.Archive

	// Nodes are fixture machines, whose HCAs are published as the policy says.
	Nodes []struct {
		Machine, Policy string
		corev1.Node
	}
	// Minor is the minor version of Kubernetes. That of an old one has the feature gates of 1.34.
	Minor int
	// Unpublished are nodes without slices.
	Unpublished []string
	// Classes replace those of the chart, or are added to them.
	Classes []resourceapi.DeviceClass
	// Claims have devices of their node, as the allocator of the scheduler chooses them, or are pending.
	Claims []struct {
		Node string
		resourceapi.ResourceClaim
	}
	// Taints are those of single devices.
	Taints []struct {
		Node, Device, Key string
		Effect            resourceapi.DeviceTaintEffect
	}
	Rules []resourceapi.DeviceTaintRule
	// Templates are those of claims.
	Templates []resourceapi.ResourceClaimTemplate
	// Drivers replace the pods of the driver.
	Drivers []corev1.Pod
	// Unread is what the user may not read.
	Unread   model.UnreadKinds
	Question why.Question
}

func scenarios(t *testing.T) (all []*scenario) {
	t.Helper()
	paths, err := filepath.Glob("testdata/why/*.txtar")
	must.NoError(t, err)
	for _, path := range paths {
		s := &scenario{name: strings.TrimSuffix(filepath.Base(path), ".txtar"), archive: golden.Open(t, path)}
		world, ok := s.archive.File("cluster.yaml")
		if !ok {
			world, err = os.ReadFile("testdata/why/cluster.yaml")
			must.NoError(t, err)
		}
		must.NoError(t, yaml.UnmarshalStrict(world, s), must.Sprint(path))
		question, _ := s.archive.File("question.yaml")
		must.NoError(t, yaml.UnmarshalStrict(question, &s.Question), must.Sprint(path))
		all = append(all, s)
	}
	return all
}

func (s *scenario) cluster(t testing.TB) *model.Cluster {
	f := fleet.New(t)
	if s.Minor > 0 && s.Minor < 36 {
		f.Features = controlplane.V134()
	}
	for i, n := range s.Nodes {
		f.Node(n.Name, n.Machine, n.Policy)
		f.Nodes[i].Spec, f.Nodes[i].Status.Conditions = n.Spec, n.Status.Conditions
	}
	for _, class := range s.Classes {
		f.Classes = slices.DeleteFunc(f.Classes, func(c resourceapi.DeviceClass) bool { return c.Name == class.Name })
		f.Classes = append(f.Classes, class)
	}
	for _, c := range s.Claims {
		made := f.Pending(c.Name, c.Spec.Devices)
		if c.Node != "" {
			made = f.Allocate(c.Node, c.Name, c.Spec.Devices)
		}
		made.DeletionTimestamp, made.Status.Devices = c.DeletionTimestamp, c.Status.Devices
		if c.Status.ReservedFor != nil {
			made.Status.ReservedFor = c.Status.ReservedFor
		}
	}
	for _, taint := range s.Taints {
		f.Taint(taint.Node, taint.Device, taint.Key, taint.Effect)
	}
	for _, node := range s.Unpublished {
		f.Unpublish(node)
	}
	c := cluster(f)
	c.Minor = s.Minor
	c.Rules, c.Templates, c.Unread, c.Now = s.Rules, s.Templates, s.Unread, time.Unix(1_700_000_500, 0)
	if s.Drivers != nil {
		c.Pods = s.Drivers
	}
	for _, u := range s.Unread {
		if u.Kind == model.Nodes {
			c.Nodes = nil
		}
	}
	return c
}

// TestWhy explains the pod of each scenario, and has status list it. The words that programs read stand before the
// text.
func TestWhy(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			c := s.cluster(t)
			a, err := why.Explain(t.Context(), c, s.Question)
			must.NoError(t, err)
			var text bytes.Buffer
			fmt.Fprintf(&text, "verdict: %s\n", a.Verdict)
			for _, f := range a.Findings {
				fmt.Fprintf(&text, "finding: %s\n", f.ID)
			}
			for _, r := range rulings(a) {
				fmt.Fprintf(&text, "ruled out for: %s\n", r)
			}
			for _, r := range a.Remedies {
				fmt.Fprintf(&text, "remedy: %s\n", r.Change)
			}
			fmt.Fprintln(&text)
			must.NoError(t, a.WriteText(&text, false))
			s.archive.Bytes(t, "answer.txt", text.Bytes())

			c.Nodes = nil // status does not read them
			c.UserPods, c.Events = []corev1.Pod{s.Question.Pod}, s.Question.Events
			if c.Templates == nil {
				c.Templates = []resourceapi.ResourceClaimTemplate{}
			}
			text.Reset()
			for _, p := range lists.Pods(t.Context(), c) {
				fmt.Fprintf(&text, "%s: %q\n", p.Name, p.Problems)
			}
			s.archive.Bytes(t, "status.txt", text.Bytes())
			if s.name == "mixed" || s.name == "prepare-failed" { // what programs read of an answer
				golden.JSON(t, "why/"+s.name, a)
			}
		})
	}
}

// rulings are the reasons for which devices are ruled out, each once.
func rulings(a *why.Answer) (reasons []model.Reason) {
	for _, c := range a.Claims {
		for _, r := range c.Requests {
			for _, x := range r.RuledOut {
				reasons = append(reasons, x.Reason)
			}
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// TestIncompletePool: a device that its driver is publishing again is in a ResourceSlice.
func TestIncompletePool(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "roce-sriov", "")
	f.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
	c := cluster(f)
	for i := range c.Slices {
		c.Slices[i].Spec.Pool.ResourceSliceCount++
	}
	answer, err := why.Explain(t.Context(), c, why.Question{Pod: fleet.Running(fleet.On(fleet.Pod("nic"), "node1"))})
	must.NoError(t, err)
	test.SliceEmpty(t, answer.Findings)
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
	answer, err := why.Explain(t.Context(), c, why.Question{Pod: fleet.Pod("nics")})
	must.NoError(t, err)
	test.Eq(t, "request nics wants 3 of hca.rdma.dev, and the best node, any, has 2", answer.Summary)
}
