package operate

import (
	"errors"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestContainerdRestart: a restarted container runtime knows the claim's devices again: the
// container of a running pod restarts, and another pod starts.
func TestContainerdRestart(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	must.NoError(t, bed.Restart(t.Context(), cluster.Containerd))
	n.RestartContainer("app")
	n.Expect("app", "app", c.Results()[0].Device)
	n.Apply(testbed.PodFor("next", "one"))
	n.Ready("next")
	n.Expect("next", "app", n.ClaimOf("next").Results()[0].Device)
}

// TestReboot: after a reboot with another order of the uverbs nodes a pod runs again, with
// the claim and the HCA that it had, by the node's new number. Nothing stays in the way of
// the claim's end, or of the next claim.
func TestReboot(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(testbed.RequestFor("one", "hca.rdma.dev", testbed.AddressOne) + testbed.PodFor("app", "one"))
	n.Ready("app")
	c := n.ClaimOf("app")
	bed.Reboot(t, func() { bed.SwapUverbs(t, testbed.HCAOne, testbed.HCAOther) })
	n.Restarted("app")
	n.Expect("app", "app", testbed.HCAOne)
	if now := n.ClaimOf("app"); now.Metadata.UID != c.Metadata.UID {
		t.Errorf("the pod has claim %v, and had %v", now.Metadata, c.Metadata)
	}
	n.Apply(testbed.RequestFor("other", "hca.rdma.dev", testbed.AddressOther) + testbed.PodFor("next", "other"))
	n.Ready("next")
	n.Expect("next", "app", testbed.HCAOther)
	n.Delete("app")
	bed.Gone(t, c.Spec())
	bed.Gone(t, bed.Record(c))
}

// TestUverbsRenumbered: the kernel numbers the uverbs nodes of two HCAs anew while a pod
// has one of them. A container that starts after that has the node of its own HCA, not the one
// that has the old number now.
func TestUverbsRenumbered(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(testbed.RequestFor("one", "hca.rdma.dev", testbed.AddressOne) + testbed.PodFor("app", "one"))
	n.Ready("app")
	c := n.ClaimOf("app")
	before := bed.Inside(t, "cat", c.Spec())
	bed.SwapUverbs(t, testbed.HCAOne, testbed.HCAOther)
	testbed.Eventually(t, "another spec", func() error {
		after, err := bed.Output("cat", c.Spec())
		if err == nil && after == before {
			err = errors.New("it is the one of before")
		}
		return err
	})
	n.RestartContainer("app")
	n.Expect("app", "app", testbed.HCAOne)
}
