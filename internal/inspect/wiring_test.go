package inspect_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// wiredNode is the slice of a node with HCAs: each is IBDEV=LEAF, with ! for the taint of an HCA that is miswired.
func wiredNode(node string, hcas ...string) resourceapi.ResourceSlice {
	s := resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: "rdma.dev", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	s.Name = node
	for _, one := range hcas {
		ibdev, leaf, _ := strings.Cut(one, "=")
		leaf, tainted := strings.CutSuffix(leaf, "!")
		attribute := func(value string) resourceapi.DeviceAttribute {
			return resourceapi.DeviceAttribute{StringValue: &value}
		}
		attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"ibdev": attribute(ibdev), "function": attribute("pf"), "netdev": attribute("net-" + ibdev),
			"nodeGUID": attribute("0000:0000:0000:000" + ibdev[len(ibdev)-1:]),
		}
		d := resourceapi.Device{Name: "pci-" + ibdev, Attributes: attributes}
		if leaf != "" {
			d.Attributes["leafSwitch"] = attribute(leaf)
		}
		if tainted {
			d.Taints = []resourceapi.DeviceTaint{{Key: "rdma.dev/miswired", Effect: resourceapi.DeviceTaintEffectNone}}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// TestWiring: a plan names HCAs in each of its ways; what differs, what is not seen and what agrees is told apart.
func TestWiring(t *testing.T) {
	c := &inspect.Cluster{Slices: []resourceapi.ResourceSlice{
		wiredNode("b", "mlx5_0=leaf-1", "mlx5_1=leaf-9", "mlx5_2", "mlx5_3=leaf-4!"),
		wiredNode("a", "mlx5_4=leaf-9"),
	}}
	plan := &v1alpha1.LinkTable{APIVersion: "rdma.dev/v1alpha1", Kind: "LinkTable", Links: []v1alpha1.Link{
		{Node: "b", HCA: "mlx5_0", Leaf: "leaf-1.example.com"}, {Node: "b", HCA: "net-mlx5_1", Leaf: "leaf-2"},
		{Node: "b", HCA: "pci-mlx5_2", Leaf: "leaf-3"}, {GUID: "0x4", Leaf: "leaf-5"},
	}}
	must.NoError(t, plan.Check(true))
	tainted := inspect.Miswired{Node: "b", HCA: "pci-mlx5_3", IBDev: "mlx5_3", Seen: "leaf-4", Tainted: true}
	want := inspect.Wiring{Agreed: 1, Unseen: []string{"b/mlx5_2"}, Differences: []inspect.Miswired{
		{Node: "a", HCA: "pci-mlx5_4", IBDev: "mlx5_4", Planned: "leaf-5", Seen: "leaf-9"},
		{Node: "b", HCA: "pci-mlx5_1", IBDev: "mlx5_1", Planned: "leaf-2", Seen: "leaf-9"},
		tainted,
	}}
	got := c.Wiring(plan)
	test.Eq(t, want, got, test.Sprint("with a plan"))
	test.Eq(t, inspect.Wiring{Differences: []inspect.Miswired{tainted}}, c.Wiring(nil),
		test.Sprint("without a plan"))
	test.Eq(t, want.Differences[:1], c.Wiring(plan, "a").Differences, test.Sprint("of one node"))
	var table bytes.Buffer
	err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(inspect.WiringTable(got.Differences), &table)
	lines := strings.Count(table.String(), "\n")
	if err != nil || !strings.Contains(table.String(), "see the events of the node") || lines != 4 {
		t.Errorf("the table is %v\n%s", err, &table)
	}
}
