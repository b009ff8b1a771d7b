package faults

import (
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/soak"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestSoak has a driver live through trouble beside the fake API server; test/cluster/soak
// does the same beside a real one.
func TestSoak(t *testing.T) {
	needs.Long(t, "TestSoak of test/cluster/soak has a real API server")
	t.Parallel()
	soak.Run(t, soak.Fake(t), 20*time.Second)
}
