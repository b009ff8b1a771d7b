package e2e

import (
	"fmt"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestEvents: what a user should know of a pod stands where kubectl describe shows it: on the
// pod and on its claim.
func TestEvents(t *testing.T) {
	n := bed.Namespace(t)
	claim := n.Running("app").Metadata.Name
	// The host's HCAs are RoCE, and the pod has a network of its own.
	want := []string{"RDMANetdevMissing", "container app has devices of claim " + claim, "stayed on the host"}
	if testbed.RaisedLimit(t) != "unlimited" {
		want = append(want, "RDMAMemlockNotRaised", "container app has less locked memory than claim "+claim+" asks for")
	}
	for _, object := range [][]string{{"pod", "app"}, {"resourceclaim", claim}} {
		testbed.Eventually(t, "events of "+object[0], func() error {
			if out := n.Kubectl(append([]string{"describe"}, object...)...); !testbed.ContainsAll(out, append(want, "rdma.dev")) {
				return fmt.Errorf("want all of %q:\n%s", want, out)
			}
			return nil
		})
	}
}
