package fleet_test

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// TestObjects writes nodes and slices for an API server without kubelets, which the
// tests in test/cluster/e2e/plugin apply. An exclusive device needs no feature of the
// API server; the others need those of 1.36.
func TestObjects(t *testing.T) {
	exclusive := fleet.New(t)
	exclusive.Node("train", "hgx-h100", "")
	exclusive.Taint("train", "pci-0000-90-00-0", "rdma.dev/port-down", "NoSchedule")
	golden.JSON(t, "exclusive", exclusive.Objects())

	shared := fleet.New(t)
	shared.Node("storage", "roce-sriov", "partitioning: true\nrules:\n- {name: all, publish: both, shares: 4}\n")
	golden.JSON(t, "shared", shared.Objects())
}
