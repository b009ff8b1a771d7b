package doctor

import "testing"

var kernelFaults = []fault{
	{
		name: "InfiniBand card without a driver", machine: "none",
		plant: func(f *fake) {
			f.sys("bus/pci/devices/0000:65:00.0/vendor", "0x15b3\n")
			f.sys("bus/pci/devices/0000:65:00.0/device", "0x1021\n")
			f.sys("bus/pci/devices/0000:65:00.0/class", "0x020700\n")
		},
		id: "driver-missing", severity: Error, subject: "0000:65:00.0", reason: "mlx5_ib", fix: "modprobe mlx5_ib",
	},
	{
		name: "Ethernet card that could do RDMA", machine: "none",
		plant: func(f *fake) {
			f.sys("bus/pci/devices/0000:65:00.0/vendor", "0x8086\n")
			f.sys("bus/pci/devices/0000:65:00.0/device", "0x1592\n")
			f.sys("bus/pci/devices/0000:65:00.0/class", "0x020000\n")
		},
		id: "driver-missing", severity: Warning, fix: "modprobe irdma",
	},
	{
		name: "no RDMA at all", machine: "none", plant: func(*fake) {},
		id: "no-hca", severity: Warning, reason: "rdma_rxe", fix: "type rxe netdev eno1",
	},
	{
		name: "modules without a device", machine: "empty-classes", plant: func(*fake) {},
		id: "no-hca", severity: Warning,
	},
	{
		name: "ib_uverbs not loaded",
		plant: func(f *fake) {
			for _, n := range f.uverbs() {
				f.remove(n)
			}
			f.unsys("class/infiniband_verbs")
		},
		id: "uverbs-module", severity: Error, fix: "modprobe ib_uverbs", also: []ID{"spec-stale"},
	},
	{
		name:  "rdma_ucm not loaded",
		plant: func(f *fake) { f.unsys("class/misc/rdma_cm"); f.remove("/dev/infiniband/rdma_cm") },
		id:    "rdma-cm-module", severity: Warning, reason: "NCCL and UCX, do without",
		fix: "mkdir -p /etc/modules-load.d && echo rdma_ucm > /etc/modules-load.d/rdma_ucm.conf", also: []ID{"spec-stale"},
	},
	{
		name: "rdma_ucm not loaded, iWARP", machine: "alibaba-erdma",
		plant: func(f *fake) { f.unsys("class/misc/rdma_cm"); f.remove("/dev/infiniband/rdma_cm") },
		id:    "rdma-cm-module", severity: Error, reason: "iWARP", fix: "modprobe rdma_ucm", also: []ID{"spec-stale"},
	},
	{
		name: "rdma_ucm not loaded, EFA", machine: "aws-p5", plant: func(*fake) {},
		id: "rdma-cm-module", severity: Info, reason: "EFA",
	},
	{
		name: "rdma_ucm in another package", // linux-modules-extra of Ubuntu's kernels for clouds
		plant: func(f *fake) {
			f.unsys("class/misc/rdma_cm")
			f.remove("/dev/infiniband/rdma_cm")
			f.replace("/lib/modules/"+release+"/modules.dep", "/rdma_ucm.ko", "/other.ko")
		},
		id: "rdma-cm-module", severity: Warning, reason: "This kernel comes without it", fix: "linux-modules-extra-$(uname -r)",
		also: []ID{"spec-stale"},
	},
	{
		name: "ib_umad not loaded",
		plant: func(f *fake) {
			for _, n := range f.machine.Nodes() {
				if n.Mode == 0o600 {
					f.remove(n.Path())
				}
			}
			f.unsys("class/infiniband_mad")
		},
		id: "umad-module", severity: Info, fix: "modprobe ib_umad",
	},
	{
		name:  "exclusive namespaces",
		plant: func(f *fake) { f.sys("module/ib_core/parameters/netns_mode", "N\n") },
		id:    "netns-exclusive", severity: Error, reason: "EPERM", fix: "netns_mode=1",
	},
	{
		name: "attributes that cannot be read", machine: "misbehaving",
		plant: func(f *fake) { f.host.SecondOpinion = agreeing(f.t, f.machine.OpenFS()) },
		id:    "hca-unreadable", severity: Warning, subject: "mlx5_4", reason: "mlx5_4", fix: "dmesg",
		also: []ID{"guid-zero", "port-init"},
	},
	{
		name: "management-only device", machine: "smi-multiplane", plant: func(*fake) {},
		id: "hca-unusable", severity: Info, subject: "smi1", reason: "no uverbs node",
	},
	{
		name: "managers of NVSwitches", machine: "hgx-b200", plant: func(*fake) {},
		id: "hca-unusable", severity: Info, subject: "mlx5_8", reason: "fabric manager",
	},
	{
		name: "VPD that cannot be read", machine: "hgx-b200",
		plant: func(f *fake) { f.sys(f.function("mlx5_8")+"/vpd", "\xff\xff") },
		id:    "vpd-unreadable", severity: Info, subject: "0000:d9:00.0", reason: "not known", fix: "dmesg",
	},
	{
		name:  "no rdma cgroup",
		plant: func(f *fake) { f.sys("fs/cgroup/cgroup.controllers", "cpu memory\n") },
		id:    "rdma-cgroup-missing", severity: Info,
	},
	{
		name:  "rdma cgroup of v1",
		plant: func(f *fake) { f.unsys("fs/cgroup/cgroup.controllers"); f.sys("fs/cgroup/rdma/tasks", "1\n") },
		id:    "rdma-cgroup-ok", severity: OK, title: "v1",
	},
	{
		name: "healthy modules", plant: func(*fake) {},
		id: "modules-ok", severity: OK,
	},
	{
		name: "shared namespaces", plant: func(*fake) {},
		id: "netns-ok", severity: OK, title: "shared",
	},
	{
		name:  "kernel without a namespace mode",
		plant: func(f *fake) { f.unsys("module/ib_core/parameters/netns_mode"); f.file(osrelease, "4.18.0-553.el8\n") },
		id:    "netns-ok", severity: OK, title: "before kernel 5.2",
	},
}

// A card that has an RDMA device is not without a driver, whatever functions of
// it have none: of a bonded card only the first one has.
func TestDriverOfBond(t *testing.T) {
	if got := troubles(newFake(t, "roce-lag").diagnose()); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}
