package dra

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestLinksThatFollow: of links that fail one after the other the first has no event at once, since the others are in
// doubt when it is judged: the drivers of all nodes would send it. The node gets one event of all.
func TestLinksThatFollow(t *testing.T) {
	n := drivertest.NewSharedNode(t, "hgx-h100")
	d, err := New(Config{
		NodeName: drivertest.NodeName, HostRoot: n.Root, KubeletDir: n.Dir, StateDir: n.StateDir, CDIDir: n.CDIDir, Site: plan.DefaultSite(),
	}, n.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Now())
	d.spend(budget.Default(), clock)
	const apart, links = 10 * time.Millisecond, 9
	start := time.Now()
	look := func(after time.Duration, changes rdma.Changes) {
		t.Helper()
		if err := d.host.update(changes); err != nil {
			t.Fatal(err)
		}
		d.judge(t.Context(), start.Add(after))
	}
	look(-time.Minute, rdma.Changes{All: true})
	for i := range links {
		ibdev := fmt.Sprintf("mlx5_%d", i)
		port := filepath.Join(n.Root, "sys/class/infiniband", ibdev, "ports/1/state")
		if err := os.WriteFile(port, []byte("1: DOWN\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		look(time.Duration(i)*apart, rdma.Changes{IBDevs: rdma.NamesOf(ibdev)})
	}
	for i := range links {
		look(d.health.down+time.Duration(i)*apart, rdma.Changes{})
		if got := d.recorder.Due(); got != 0 {
			t.Fatalf("with %d of %d links down %d events go at once", i+1, links, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.recorder.Run(ctx) })
	defer running.Wait()
	defer cancel()
	drivertest.Eventually(t, func() error {
		if len(n.Events()) == 0 {
			clock.Step(time.Second)
			return fmt.Errorf("the node has no event")
		}
		return nil
	})
	all := n.Events()
	if len(all) != 1 || !strings.HasPrefix(all[0].Message, fmt.Sprintf("%d RDMA devices: ", links)) {
		t.Errorf("the node has the events %v", all)
	}
}
