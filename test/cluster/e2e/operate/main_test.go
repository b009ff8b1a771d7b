// Package operate proves on a real one-node cluster what operators rely on: installs, upgrades and bad configurations,
// faults and restarts of what a node has, rights, and what monitoring reads. Its parent proves what pods get, at the
// same time, on another cluster.
package operate

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// bed is a host with eight HCAs for GPUs and four beside them.
var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{Machine: "hgx-h100", Values: testbed.HGXValues, GPUs: true}, &bed)
}
