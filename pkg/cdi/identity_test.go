package cdi_test

import (
	"strconv"
	"strings"
	"testing"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// hcas makes a snapshot of ibdev@slot or ibdev@slot/netdev, with uverbs0, uverbs1 and so on; "-" takes a number that no
// HCA has.
func hcas(list string) *rdma.Snapshot {
	snap := &rdma.Snapshot{}
	for i, h := range strings.Fields(list) {
		if ibdev, slot, ok := strings.Cut(h, "@"); ok {
			slot, netdev, _ := strings.Cut(slot, "/")
			snap.HCAs = append(snap.HCAs, rdma.HCA{IBDev: ibdev, Name: "pci-0000-" + slot + "-00-0",
				Ports:  []rdma.Port{{Number: 1, Netdev: netdev}},
				Uverbs: &rdma.Node{Kind: rdma.NodeUverbs, Name: "uverbs" + strconv.Itoa(i)}})
		}
	}
	return snap
}

// TestPurpose: a spec written for two HCAs, on a host whose HCAs have other names, numbers and slots now.
func TestPurpose(t *testing.T) {
	const before = "mlx5_0@3b/eth0 mlx5_1@4b"
	devices, err := cdi.HostDevices(hcas(before),
		cdi.HostOptions{Names: cdi.NameStrategies, Nodes: rdma.DefaultClasses})
	must.NoError(t, err)
	ours, err := cdi.NewSpec(cdi.KindHCA, devices)
	must.NoError(t, err)
	theirs := &specs.Spec{Kind: "example.com/nic", Devices: []specs.Device{
		{Name: "mlx5_0", ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{
			{Path: "/x", HostPath: "/dev/infiniband/uverbs0"}, {Path: "/dev/infiniband/rdma_cm"}}}}}}
	for _, test := range []struct {
		now, device string
		spec        *specs.Spec
		known       bool
		says        string
	}{
		{before, "mlx5_0", ours, true, ""},
		{before, "all", ours, true, ""},
		{"mlx5_1@4b mlx5_0@3b", "mlx5_0", ours, true, "it is for pci-0000-3b-00-0, and uverbs0 belongs to pci-0000-4b-00-0 (mlx5_1) now"},
		{"mlx5_1@4b mlx5_0@3b", "pci-0000-4b-00-0", ours, true, "uverbs1 belongs to pci-0000-3b-00-0 (mlx5_0) now"},
		{"mlx5_1@4b mlx5_0@3b", "all", ours, true, ""}, // both, in whatever order
		{"mlx5_0@5b mlx5_1@4b", "mlx5_0", ours, true, "uverbs0 belongs to pci-0000-5b-00-0 (mlx5_0) now"},
		{"mlx5_0@5b mlx5_1@4b", "all", ours, true, "uverbs0 belongs to pci-0000-5b-00-0"},
		{"mlx5_0@5b mlx5_1@4b", "mlx5_1", ours, true, ""},
		{"mlx5_1@3b mlx5_0@4b", "mlx5_0", ours, true, "pci-0000-3b-00-0 is called mlx5_1 now, and was mlx5_0 when"},
		{"- mlx5_1@4b", "mlx5_0", ours, true, "uverbs0 belongs to no HCA now"},
		{before, "net-eth0", ours, true, ""},
		{"mlx5_0@3b mlx5_1@4b", "net-eth0", ours, true, ""}, // in a container, or renamed
		{"mlx5_0@3b/eth0 mlx5_1@4b/eth0", "net-eth0", ours, true, ""},
		{"mlx5_0@3b mlx5_1@4b/eth0", "net-eth0", ours, true,
			"uverbs0 belongs to mlx5_0 (pci-0000-3b-00-0) now, and the name net-eth0 to mlx5_1 (pci-0000-4b-00-0)"},
		{"mlx5_0@3b mlx5_1@4b/eth0", "mlx5_0", ours, true, ""},
		{before, "mlx5_0", theirs, false, ""},
		{"mlx5_1@4b mlx5_0@3b", "mlx5_0", theirs, true, "uverbs0 belongs to mlx5_1 (pci-0000-4b-00-0) now"},
	} {
		var device *specs.Device
		for i := range test.spec.Devices {
			if test.spec.Devices[i].Name == test.device {
				device = &test.spec.Devices[i]
			}
		}
		known, err := cdi.NewSlots(hcas(test.now)).Purpose(test.spec, device)
		if known != test.known || (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s of %s, now %s: known %v, error %v; want %v, %q", test.device, test.spec.Kind, test.now, known, err,
				test.known, test.says)
		}
	}
	// What cannot be seen is not gone: an HCA in the namespace of a pod, and one that could not be read.
	for _, snap := range []*rdma.Snapshot{{NetnsMode: rdma.NetnsExclusive}, {Problems: []rdma.Problem{{Message: "x"}}}} {
		known, err := cdi.NewSlots(snap).Purpose(ours, &ours.Devices[0])
		test.True(t, !known && err == nil, test.Sprintf("%+v: known %v, error %v", snap, known, err))
	}
}
