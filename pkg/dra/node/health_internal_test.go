package node

import (
	"context"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/largehost"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// TestHealthStaysKnown: the health of a host on which nothing changes stays known, as long as it is read. And it is no
// change that wakes the kubelet.
func TestHealthStaysKnown(t *testing.T) {
	host := largehost.New(t, 8)
	n := opened(t, Config{Sys: host})
	n.listener.Health = func(context.Context, int, []health.Transition, []*plan.Plan) {}
	start := time.Now()
	n.judge(t.Context(), start)
	changed := n.HealthChanged()
	now := start.Add(2 * health.DefaultConfig().Stale)
	if n.judge(t.Context(), now) {
		t.Error("the health has changed")
	}
	if status, message := n.Host().Health.Report(host.Last.Name, now); status != health.Healthy {
		t.Errorf("the last HCA is %s: %s", status, message)
	}
	select {
	case <-changed:
		t.Error("who waits for a change of health was woken")
	default:
	}
}
