// Package promises proves on a real one-node cluster what the README promises, each once, for make test. The other packages
// below e2e prove the rest, for make proof.
package promises

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// bed is a host with eight HCAs for GPUs and four beside them.
var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{Machine: "hgx-h100", Values: testbed.HGXValues}, &bed)
}
