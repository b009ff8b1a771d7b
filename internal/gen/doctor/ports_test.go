package doctor

import (
	"strconv"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

var portFaults = []fault{
	{
		name: "port switched off",
		plant: func(f *fake) {
			f.port("mlx5_1", "state", "1: DOWN\n")
			f.port("mlx5_1", "phys_state", "3: Disabled\n")
			f.netdev("enp41s0np0", "flags", "0x1002\n")
		},
		id: "port-down", severity: Warning, subject: "mlx5_1/1", title: "1 port down (Disabled)",
		reason: "its network interface is down", fix: "ip link set enp41s0np0 up",
	},
	{
		name:  "no carrier, which mlx5 reports as disabled too",
		plant: func(f *fake) { f.port("mlx5_1", "state", "1: DOWN\n"); f.port("mlx5_1", "phys_state", "3: Disabled\n") },
		id:    "port-down", severity: Warning, reason: "is up and has no link", fix: "ethtool enp41s0np0",
	},
	{
		name: "interface that cannot be read",
		plant: func(f *fake) {
			f.port("mlx5_1", "state", "1: DOWN\n")
			f.netdev("enp41s0np0", "flags", "\n")
		},
		id: "port-down", severity: Warning, reason: "which of the two cannot be read",
	},
	{
		name: "InfiniBand port switched off", machine: "smi-multiplane",
		plant: func(f *fake) {
			f.port("ibp8s0f0", "state", "1: DOWN\n")
			f.port("ibp8s0f0", "phys_state", "3: Disabled\n")
		},
		id: "port-down", severity: Warning, reason: "ibportstate", fix: "ibstat ibp8s0f0",
	},
	{
		name:  "no cable",
		plant: func(f *fake) { f.port("mlx5_1", "state", "1: DOWN\n"); f.port("mlx5_1", "phys_state", "2: Polling\n") },
		id:    "port-down", severity: Warning, reason: "no cable", fix: "ethtool",
	},
	{
		name: "InfiniBand link errors", machine: "smi-multiplane",
		plant: func(f *fake) {
			f.port("ibp8s0f0", "state", "1: DOWN\n")
			f.port("ibp8s0f0", "phys_state", "6: LinkErrorRecovery\n")
		},
		id: "port-down", severity: Warning, title: "LinkErrorRecovery",
	},
	{
		name: "every port down", machine: "alibaba-erdma",
		plant: func(f *fake) {
			f.port("erdma_0", "state", "1: DOWN\n")
			f.port("erdma_0", "phys_state", "3: Disabled\n")
		},
		id: "no-active-port", severity: Error, fix: "rdma link", also: []ID{"port-down"},
	},
	{
		name: "no subnet manager", machine: "dgx-h100-ib",
		plant: func(f *fake) { f.port("mlx5_0", "state", "2: INIT\n") },
		id:    "port-init", severity: Warning, subject: "mlx5_0/1", fix: "sminfo -C mlx5_0",
		also: []ID{"port-down"}, // the machine does not use one of its ports
	},
	{
		name: "VF whose PF is ACTIVE", machine: "many-uverbs",
		plant: func(f *fake) { f.port("mlx5_5", "state", "2: INIT\n") },
		id:    "port-init", severity: Warning, subject: "mlx5_5/1", reason: "the fabric has a subnet manager", fix: "vf 4 node_guid",
	},
	{
		name: "VF without a GUID", machine: "roce-sriov", plant: func(*fake) {},
		id: "guid-zero", severity: Warning, subject: "mlx5_9",
		fix: "ip link set ens1f0np0 vf 7 mac MAC\necho 0000:3b:01.1 > " +
			"/sys/bus/pci/drivers/mlx5_core/unbind",
		also: []ID{"port-down"},
	},
	{
		name: "InfiniBand VF without a GUID", machine: "many-uverbs",
		plant: func(f *fake) {
			e, err := f.machine.Tree().Resolve("sys/class/infiniband/mlx5_5")
			must.NoError(f.t, err)
			f.sys(e.Path[len("sys/"):]+"/node_guid", "0000:0000:0000:0000\n")
		},
		id: "guid-zero", severity: Warning, subject: "mlx5_5", fix: "node_guid GUID port_guid GUID",
	},
	{
		name: "no address",
		plant: func(f *fake) {
			for i := 2; i < 6; i++ { // beyond the link-local ones
				f.port("mlx5_2", "gids/"+strconv.Itoa(i), "0000:0000:0000:0000:0000:0000:0000:0000\n")
			}
		},
		id: "roce-no-gid", severity: Warning, subject: "mlx5_2/1", fix: "ip address add ADDRESS/PREFIX dev ",
	},
	{
		name: "RoCE v1 only",
		plant: func(f *fake) {
			for i := range 6 {
				f.port("mlx5_2", "gid_attrs/types/"+strconv.Itoa(i), "IB/RoCE v1\n")
			}
		},
		id: "roce-no-gid", severity: Warning, reason: "of RoCE v1 only", fix: "roce_mode",
	},
	{
		name: "IPv4 link-local address", // of NVIDIA's instructions for two DGX Sparks
		plant: func(f *fake) {
			for i := 2; i < 6; i++ {
				f.port("mlx5_2", "gids/"+strconv.Itoa(i), "0000:0000:0000:0000:0000:ffff:a9fe:1b3d\n")
			}
		},
		id: "roce-gids-ok", severity: OK,
	},
	{
		name: "active ports", plant: func(*fake) {},
		id: "ports-ok", severity: OK, title: "9 ports ACTIVE",
	},
	{
		name: "addresses", plant: func(*fake) {},
		id: "roce-gids-ok", severity: OK,
	},
}

// Drivers that never set a node GUID, or derive it from a MAC, have nothing to configure.
func TestNoGUIDToSet(t *testing.T) {
	for ibdev, machine := range map[string]string{
		"mana_0": "azure-mana", "rocep24s0f0": "irdma-e810", "rdmap79s0": "aws-p5",
	} {
		f := newFake(t, machine)
		e, err := f.machine.Tree().Resolve("sys/class/infiniband/" + ibdev)
		must.NoError(t, err)
		f.sys(e.Path[len("sys/"):]+"/node_guid", "0000:0000:0000:0000\n")
		if got := troubles(f.diagnose()); len(got) > 0 {
			t.Errorf("%s: found %v", machine, got)
		}
	}
}

// TestUnreadPort: nothing is said of all ports if the state of one could not be read.
func TestUnreadPort(t *testing.T) {
	test.SliceContains(t, idsOf(newFake(t, "hgx-h100").diagnose()), "ports-ok")
	f := newFake(t, "hgx-h100")
	f.port("mlx5_1", "state", "\n")
	test.SliceNotContains(t, idsOf(f.diagnose()), "ports-ok")
}

func idsOf(r *Report) (ids []ID) {
	for _, f := range r.Findings {
		ids = append(ids, f.ID)
	}
	return ids
}
