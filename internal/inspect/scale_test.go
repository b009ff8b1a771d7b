package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// copies returns a cluster with as many nodes like the first one of a fleet, and all
// their claims.
func copies(f *fleet.Fleet, nodes int) *model.Cluster {
	one := cluster(f)
	out := &model.Cluster{Classes: one.Classes}
	for n := range nodes {
		name := fmt.Sprintf("node%04d", n)
		node := one.Nodes[0].DeepCopy()
		node.Name = name
		node.Labels["kubernetes.io/hostname"] = name
		out.Nodes = append(out.Nodes, *node)
		for _, s := range one.Slices {
			s := s.DeepCopy()
			s.Name, s.Spec.NodeName, s.Spec.Pool.Name = s.Name+name, &name, name
			out.Slices = append(out.Slices, *s)
		}
		for _, c := range one.Claims {
			c := c.DeepCopy()
			c.Name += name
			for i := range c.Status.Allocation.Devices.Results {
				c.Status.Allocation.Devices.Results[i].Pool = name
			}
			out.Claims = append(out.Claims, *c)
		}
	}
	return out
}

// full is a cluster of nodes with nine HCAs each. Claims have all of them.
func full(t testing.TB, nodes int) (*model.Cluster, why.Question) {
	f := fleet.New(t)
	f.Node("node", "hgx-h100", "")
	for i := range 9 {
		f.Allocate("node", fmt.Sprintf("claim%d", i), claim(want("nic", "hca.rdma.dev")))
	}
	c := copies(f, nodes)
	waits := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "waits", UID: "waits"}}
	waits.Spec.Devices = claim(count("nics", "hca.rdma.dev", 4, fleet.RDMA+".?rateGbps.orValue(0) >= 400"))
	c.Claims = append(c.Claims, waits)
	return c, why.Question{Pod: fleet.Pod("waits")}
}

// TestScale: a question about a large cluster is answered, and all its devices are
// accounted for.
func TestScale(t *testing.T) {
	const nodes = 30
	c, q := full(t, nodes)
	answer, err := why.Explain(context.Background(), c, q)
	must.NoError(t, err)
	r := answer.Claims[0].Requests[0]
	ruled := 0
	for _, x := range r.RuledOut {
		ruled += len(x.Devices)
	}
	if r.Devices != 9*nodes || ruled != 9*nodes || r.Nodes != nodes {
		t.Errorf("%d devices on %d nodes, %d ruled out; want %d on %d, all", r.Devices, r.Nodes, ruled, 9*nodes, nodes)
	}
}

// TestTimeIsOver: an answer whose time is over has what was found until then.
func TestTimeIsOver(t *testing.T) {
	f, p := fleet.Short(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	answer, err := why.Explain(ctx, cluster(f), why.Question{Pod: p})
	must.NoError(t, err)
	if answer.Verdict != why.VerdictUnallocated || len(answer.Unread) != 1 {
		t.Errorf("%+v", answer)
	}
	var said strings.Builder
	must.NoError(t, answer.WriteText(&said, false))
	test.StrNotContains(t, said.String(), "None of the changes", test.Sprint("no change was tried"))
	request := f.Claims["nics"].Spec.Devices.Requests[0].Exactly
	request.Count, request.Selectors = 1, nil
	answer, err = why.Explain(ctx, cluster(f), why.Question{Pod: p})
	must.NoError(t, err)
	test.Eq(t, why.VerdictUnknown, answer.Verdict, test.Sprint("the allocator has answered nothing"))
	test.StrContains(t, answer.Summary, "the time was over")
}

func BenchmarkWhy(b *testing.B) {
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			c, q := full(b, nodes)
			for b.Loop() {
				if _, err := why.Explain(context.Background(), c, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDevices lists devices, and the allocator is asked for each of them: PFs and VFs that exclude each other,
// shared and exclusive.
func BenchmarkDevices(b *testing.B) {
	for _, nodes := range []int{1, 100} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			f := fleet.New(b)
			f.Node("node", "roce-sriov", "partitioning: true\nrules:\n- {name: all, publish: both, shares: 4}\n")
			f.Allocate("node", "share", claim(want("share", "shared.hca.rdma.dev")))
			c := copies(f, nodes)
			for b.Loop() {
				if _, err := lists.Devices(context.Background(), c, lists.DeviceFilter{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
