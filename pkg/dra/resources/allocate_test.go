package resources_test

import (
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// allocate runs the scheduler's allocator for one claim on a machine whose HCAs are
// all published exclusively, as the oldest supported cluster has it. It returns
// "request=device" for each result, nil if nothing fits.
func allocate(t *testing.T, machine string, devices resourceapi.DeviceClaim) []string {
	t.Helper()
	cluster := controlplane.Cluster{Node: node, Features: controlplane.V134(), Classes: controlplane.ChartClasses(t)}
	cluster.Publish(rdma.Domain, exclusive(rdmatest.Snapshot(t, machine)))
	var got []string
	for _, r := range cluster.Allocate(t, "claim", devices) {
		got = append(got, r.Request+"="+r.Device)
	}
	return got
}

// TestAllocate asks the scheduler's own allocator for devices, as claims would.
func TestAllocate(t *testing.T) {
	const rdma = `device.attributes["rdma.dev"]`
	const pcieRoot = "resource.kubernetes.io/pcieRoot"
	want := controlplane.Want
	vfFirst := controlplane.Request{Name: "nic", First: []controlplane.Request{want("s0", "vf.hca.rdma.dev"), want("s1", "hca.rdma.dev")}}
	for _, tc := range []struct {
		name, machine string
		claim         resourceapi.DeviceClaim
		want          []string
	}{
		{"a PF by class", "roce-sriov", controlplane.Claim(want("nic", "hca.rdma.dev")), []string{"nic=pci-0000-3b-00-1"}},
		{"a VF by class", "roce-sriov", controlplane.Claim(want("nic", "vf.hca.rdma.dev")), []string{"nic=pci-0000-3b-00-2"}},
		{"two VFs", "roce-sriov", controlplane.Claim(controlplane.Request{Name: "nic", Class: "vf.hca.rdma.dev", Count: 2}), []string{"nic=pci-0000-3b-00-2", "nic=pci-0000-3b-00-3"}},
		{"more PFs than there are", "roce-sriov", controlplane.Claim(controlplane.Request{Name: "nic", Class: "hca.rdma.dev", Count: 3}), nil},
		{"no VF on a host without", "hgx-h100", controlplane.Claim(want("nic", "vf.hca.rdma.dev")), nil},
		{"an SF counts as a VF", "mlx5-sf", controlplane.Claim(want("nic", "vf.hca.rdma.dev")), []string{"nic=pci-0000-c1-00-0-sf-88"}},
		{"soft-RoCE", "soft", controlplane.Claim(want("nic", "hca.rdma.dev")), []string{"nic=soft-rxe-dummy0"}},
		{"nothing is shared yet", "hgx-h100", controlplane.Claim(want("nic", "shared.hca.rdma.dev")), nil},
		{
			"by rate", "dgx-h100-ib",
			controlplane.Claim(want("nic", "hca.rdma.dev", rdma+`.?rateGbps.orValue(0) >= 400`, rdma+`.protocol == "ib"`)),
			[]string{"nic=pci-0000-18-00-0"},
		},
		{"by a rate nobody has", "dgx-h100-ib", controlplane.Claim(want("nic", "hca.rdma.dev", rdma+`.?rateGbps.orValue(0) >= 1600`)), nil},
		{"by interface", "hgx-h100", controlplane.Claim(want("nic", "hca.rdma.dev", rdma+`.?ibdev.orValue("") == "mlx5_4"`)), []string{"nic=pci-0000-52-00-0"}},
		{"EFA", "aws-p5", controlplane.Claim(want("nic", "hca.rdma.dev", rdma+`.protocol == "efa"`)), []string{"nic=pci-0000-4f-00-0"}},
		{
			"two below one PCIe root", "aws-p5",
			controlplane.Match(controlplane.Claim(want("a", "hca.rdma.dev"), want("b", "hca.rdma.dev", `device.attributes["resource.kubernetes.io"].pciBusID != "0000:50:00.0"`)), pcieRoot),
			[]string{"a=pci-0000-4f-00-0", "b=pci-0000-51-00-0"},
		},
		{
			"two roots for one constraint", "hgx-h100",
			controlplane.Match(controlplane.Claim(want("a", "hca.rdma.dev", rdma+`.ibdev == "mlx5_0"`), want("b", "hca.rdma.dev", rdma+`.ibdev == "mlx5_2"`)), pcieRoot),
			nil,
		},
		{"first available, preferred", "roce-sriov", controlplane.Claim(vfFirst), []string{"nic/s0=pci-0000-3b-00-2"}},
		{"first available, fallback", "hgx-h100", controlplane.Claim(vfFirst), []string{"nic/s1=pci-0000-19-00-0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			test.SliceEqOp(t, tc.want, allocate(t, tc.machine, tc.claim), test.Sprint("allocated"))
		})
	}
}
