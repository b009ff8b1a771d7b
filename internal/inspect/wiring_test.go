package inspect_test

import (
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// TestWiring: a plan names HCAs in each of its ways; what differs, what is not seen and what agrees is told apart.
func TestWiring(t *testing.T) {
	var in struct {
		Slices []resourceapi.ResourceSlice
		Plan   v1alpha1.LinkTable
	}
	patch.File(t, "testdata/wiring/cluster.yaml", &in)
	must.NoError(t, in.Plan.Check(true))
	c := &model.Cluster{Slices: in.Slices}
	planned := lists.CompareWiring(c, &in.Plan, model.NodeChoice{})
	golden.JSON(t, "wiring/planned", planned)
	golden.Bytes(t, "wiring/planned.txt", printed(t, lists.WiringTable(planned.Differences), false))
	golden.JSON(t, "wiring/unplanned", lists.CompareWiring(c, nil, model.NodeChoice{}))
	golden.JSON(t, "wiring/one-node", lists.CompareWiring(c, &in.Plan, model.NodeChoice{Names: []string{"a"}}))
}
