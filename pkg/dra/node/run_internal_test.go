package node

import (
	"context"
	"errors"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestMisfitsWait: specs that do not fit the host are tried again after a reading of the host, and not in a circle.
func TestMisfitsWait(t *testing.T) {
	const readings = 100
	signals := make(chan watch.Signal)
	n := opened(t, Config{
		Sys: sysfs.DirFS(rdmatest.Root(t, "hgx-h100") + "/sys"),
		Source: func(context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
			return signals, func(*rdma.Snapshot) {}
		},
	})
	tried := make(chan struct{})
	listener := Listener{
		Reshaped: func(ctx context.Context) error {
			select {
			case tried <- struct{}{}:
			case <-ctx.Done():
			}
			n.NotAdapted()
			return errors.New("an HCA is missing")
		},
		Changed: func() {},
		Health:  func(context.Context, int, []health.Transition, []*plan.Plan) {},
	}
	must.NoError(t, n.Start(t.Context(), listener))
	n.NotAdapted()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	more := 0 // tries without a reading of the test; the driver polls each half minute
	for range readings {
		for sent := false; !sent; {
			select {
			case signals <- watch.Signal{Changes: rdma.Changes{All: true}}:
				sent = true
			case <-tried:
				more++
			}
		}
		<-tried
	}
	cancel()
	<-done
	test.LessEq(t, readings/4, more, test.Sprintf("the specs were tried %d times without a reading", more))
}
