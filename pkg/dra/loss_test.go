package dra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestNodeLost: while there is no Node, the status page shows no device as published, and says why. The next Node gets
// the devices, its address blocks are read, and one event says what happened. Claims stay.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	prepare(t, n, c)
	drivertest.WaitPublished(t, n)
	published := func() (devices int, problems string) {
		p := d.Status(drivertest.Context(t))
		for _, h := range p.HCAs {
			devices += len(h.Devices)
		}
		return devices, strings.Join(p.Problems, "\n")
	}
	state := func(devices int, problem string) {
		t.Helper()
		drivertest.Eventually(t, func() error {
			got, problems := published()
			if got != devices || !strings.Contains(problems, problem) || problem == "" && problems != "" {
				return fmt.Errorf("%d devices are published, the problems are %q", got, problems)
			}
			return nil
		})
	}
	state(9, "")
	n.RemoveNode()
	state(0, "the Node object does not exist")
	n.RecreateNode("another")
	state(9, "")
	drivertest.Eventually(t, func() error {
		var said []string
		for _, e := range n.Events() {
			said = append(said, e.Reason+": "+e.Message)
		}
		if len(said) != 1 || !strings.HasPrefix(said[0], "RDMAPublishedAgain: ") || !strings.Contains(said[0], "created anew (UID another") {
			return fmt.Errorf("the events are %q", said)
		}
		return nil
	})
	test.True(t, slices.Contains(drivertest.DeviceNames(n.Slices()), dev0),
		test.Sprintf("%s is not published", dev0))
	prepare(t, n, c)
}
