package inspect_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

func mixedCluster(t *testing.T) *model.Cluster { return cluster(fleet.Mixed(t)) }

func printed(t *testing.T, table *metav1.Table, wide bool) []byte {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, &b))
	return b.Bytes()
}

// both checks a table in both widths.
func both(t *testing.T, name string, table *metav1.Table) {
	t.Helper()
	golden.Bytes(t, name+".txt", printed(t, table, false))
	golden.Bytes(t, name+"-wide.txt", printed(t, table, true))
}

// TestRailsTainted: an HCA is tainted if a taint keeps claims away from one of its devices.
func TestRailsTainted(t *testing.T) {
	c := mixedCluster(t)
	for i := range c.Slices {
		for j := range c.Slices[i].Spec.Devices {
			if d := &c.Slices[i].Spec.Devices[j]; strings.HasPrefix(d.Name, model.SharedPrefix) {
				d.Taints = []resourceapi.DeviceTaint{{Key: "a", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
			}
		}
	}
	tainted := 0
	for _, r := range lists.Rails(c, model.NodeChoice{Names: []string{"node2"}}) {
		tainted += r.Tainted
	}
	must.Positive(t, tainted)
}

// TestProblemCut: what others wrote stays in quotes where the middle of a problem is cut.
func TestProblemCut(t *testing.T) {
	pod := lists.Pod{Problems: []string{`it says "` + strings.Repeat("a", 300) + `" again`}}
	got := string(printed(t, lists.PodTable([]lists.Pod{pod}, false, false), false))
	must.StrContains(t, got, `a" ... "a`)
}

func TestNodes(t *testing.T) {
	nodes, err := lists.Nodes(context.Background(), mixedCluster(t))
	must.NoError(t, err)
	both(t, "nodes", lists.NodeTable(nodes))
	golden.JSON(t, "nodes", nodes)
	named, err := lists.Nodes(context.Background(), mixedCluster(t), "plain")
	if err != nil || len(named) != 1 || *named[0].Published || named[0].Driver != nil {
		t.Errorf("a node without the driver that is asked for: %+v, %v", named, err)
	}
}

func TestDevices(t *testing.T) {
	devices, err := lists.Devices(context.Background(), mixedCluster(t), lists.DeviceFilter{})
	must.NoError(t, err)
	both(t, "devices", lists.DeviceTable(devices))
	golden.JSON(t, "devices", devices[:1])
}

// TestBusy: the administrator's claim of the cluster takes no HCA, and nobody waits for its end.
func TestBusy(t *testing.T) {
	hcas, err := mixedCluster(t).ListHCAs(t.Context(), true, model.NodeChoice{})
	must.NoError(t, err)
	at := slices.IndexFunc(hcas, func(h model.HCA) bool { return h.String() == "node1/mlx5_0" })
	must.NotEq(t, -1, at)
	test.Eq(t, "claim default/train has it", hcas[at].Busy)
}

func TestClaims(t *testing.T) {
	c := mixedCluster(t)
	train := slices.IndexFunc(c.Claims, func(c resourceapi.ResourceClaim) bool { return c.Name == "train" })
	c.Claims[train].Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "rdma.dev", Device: "pci-0000-18-00-0",
		NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: "rdma0", IPs: []string{"10.78.4.2/16"}},
		Conditions: []metav1.Condition{{
			Type: "Ready", Status: metav1.ConditionFalse, Reason: "DeviceMissing",
			Message: "the node has no RDMA device in the slot pci-0000-18-00-0 now",
		}}}}
	claims := lists.Claims(context.Background(), c)
	now := time.Date(2026, 11, 1, 9, 30, 0, 0, time.UTC)
	both(t, "claims", lists.ClaimTable(claims, true, now))
	golden.Bytes(t, "claims-namespace.txt", printed(t, lists.ClaimTable(claims, false, now), false))
	golden.JSON(t, "claims", claims)
}

func TestTopologies(t *testing.T) {
	all, err := lists.Topologies(context.Background(), mixedCluster(t), model.NodeChoice{})
	must.NoError(t, err)
	for _, n := range all {
		var b bytes.Buffer
		must.NoError(t, n.WriteTree(&b, topology.BoxLines))
		golden.Bytes(t, "topology/"+n.Node+".txt", b.Bytes())
	}
	golden.JSON(t, "topology/node2", all[1])
	one, err := lists.Topologies(context.Background(), mixedCluster(t), model.NodeChoice{Names: []string{"node3"}})
	if err != nil || len(one) != 1 || one[0].Node != "node3" {
		t.Errorf("one node: %+v, %v", one, err)
	}
}

// TestClaimOfPodGroup: a claim that is reserved for a PodGroup names it among its users.
func TestClaimOfPodGroup(t *testing.T) {
	b := fleet.New(t)
	b.Node("node1", "hgx-h100", "")
	c := b.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
		{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "workers"}, {Resource: "pods", Name: "beside"},
	}
	claims := lists.Claims(t.Context(), cluster(b))
	table := lists.ClaimTable(claims, false, time.Time{})
	if len(claims) != 1 || !slices.Contains(table.Rows[0].Cells, any("beside,podgroup/workers")) {
		t.Errorf("claims %+v, as a table %v", claims, table.Rows)
	}
}
