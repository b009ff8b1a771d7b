package report_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestLinksThatFollow: of links that fail one after the other the first has no event at once, since the others are in
// doubt when it is judged: the drivers of all nodes would send it. The node gets one event of all.
func TestLinksThatFollow(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	store, err := claimstore.Open(n.StateDir, claimstore.Boot{ID: "boot"})
	must.NoError(t, err)
	const apart, links = 10 * time.Millisecond, 9
	var at atomic.Int64 // since the start
	start, signals := time.Now(), make(chan watch.Signal)
	host, err := node.Open(node.Config{
		HostRoot: n.Root, Store: store, Health: health.DefaultConfig(),
		Now: func() time.Time { return start.Add(time.Duration(at.Load())) },
		Source: func(context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
			return signals, func(*rdma.Snapshot) {}
		},
	})
	must.NoError(t, err)
	clock := clocktesting.NewFakeClock(time.Now())
	recorder := report.NewRecorder(report.Config{
		Client: n.Client(t), NodeName: drivertest.NodeName, Clock: clock, Now: time.Now,
		Budget: budget.New(budget.Default(), clock, rand.Float64),
	})
	follow(t, host, recorder)
	look := func(after time.Duration, changes rdma.Changes) {
		at.Store(int64(after))
		for range 2 { // the second is taken when the first has been judged
			signals <- watch.Signal{Changes: changes}
		}
	}
	look(0, rdma.Changes{All: true})
	for i := range links {
		ibdev := fmt.Sprintf("mlx5_%d", i)
		port := filepath.Join(n.Root, "sys/class/infiniband", ibdev, "ports/1/state")
		must.NoError(t, os.WriteFile(port, []byte("1: DOWN\n"), 0o644))
		look(time.Minute+time.Duration(i)*apart, rdma.Changes{IBDevs: rdma.NamesOf(ibdev)})
	}
	for i := range links {
		look(time.Minute+health.DefaultConfig().Down+time.Duration(i)*apart, rdma.Changes{})
		must.Eq(t, 0, recorder.Due(), must.Sprintf("with %d of %d links down", i+1, links))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { recorder.Run(ctx) })
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
	test.True(t, len(all) == 1 && strings.HasPrefix(all[0].Message, fmt.Sprintf("%d RDMA devices: ", links)),
		test.Sprintf("the node has the events %v", all))
}

// follow has a recorder hear of the health of a host, until the end of the test.
func follow(t *testing.T, host *node.Node, recorder *report.Recorder) {
	t.Helper()
	err := host.Start(t.Context(), node.Listener{
		Reshaped: func(context.Context) error { return nil }, Changed: func() {},
		Health: func(_ context.Context, mayFollow int, transitions []health.Transition, plans []*plan.Plan) {
			recorder.RecordHealth(mayFollow, transitions, plans)
		},
	})
	must.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { host.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}
