package node

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// opened returns a node of a host. What the test does not configure is empty.
func opened(t testing.TB, cfg Config) *Node {
	t.Helper()
	store, err := claimstore.Open(drivertest.TempDir(t), claimstore.Boot{ID: "boot"})
	must.NoError(t, err)
	cfg.Store, cfg.Health, cfg.Now = store, health.DefaultConfig(), time.Now
	cfg.HostRoot = "/" // rdmamap is not asked
	n, err := Open(cfg)
	must.NoError(t, err)
	return n
}
