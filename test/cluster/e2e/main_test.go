// Package e2e proves the driver on a real one-node cluster: each test asserts what
// a user relies on, from inside the containers wherever that is possible.
package e2e

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// bed is a host with eight HCAs for GPUs and four beside them.
var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{
		Machine: "hgx-h100",
		// The admission policies must hold for claims in the older versions too.
		Cluster: cluster.Options{RuntimeConfig: "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"},
		Values:  testbed.HGXValues,
		GPUs:    true,
	}, &bed)
}
