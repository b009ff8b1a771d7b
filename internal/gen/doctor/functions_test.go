package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/gen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// pci puts a PCI function; without a driver if that is "".
func (f *fake) pci(address, vendor, device, class, driver string) {
	dir := "bus/pci/devices/" + address
	f.sys(dir+"/vendor", "0x"+vendor+"\n")
	f.sys(dir+"/device", "0x"+device+"\n")
	f.sys(dir+"/class", "0x"+class+"\n")
	if driver != "" {
		f.syslink(dir+"/driver", "../../../../bus/pci/drivers/"+driver)
	}
}

// syslink puts a link into /sys.
func (f *fake) syslink(name, target string) {
	must.NoError(f.t, f.machine.Tree().Replace(tree.Entry{Path: "sys/" + name, Kind: tree.Link, Target: target}))
}

// auxiliary puts an auxiliary device of a PCI function, and binds it to a driver unless that is "".
func (f *fake) auxiliary(address, name, driver string) {
	dir := "devices/pci0000:60/" + address + "/" + name
	f.sys(dir+"/uevent", "\n")
	f.syslink("bus/auxiliary/devices/"+name, "../../../"+dir)
	if driver != "" {
		f.syslink(dir+"/driver", "../../../../bus/auxiliary/drivers/"+driver)
	}
}

// load puts a loaded module.
func (f *fake) load(modules ...string) {
	for _, m := range modules {
		f.sys("module/"+m+"/refcnt", "0\n")
	}
}

// lose takes the RDMA device of a machine's HCA away, and its driver unless that is to stay.
func (f *fake) lose(ibdev string, keepDriver bool) {
	function := f.function(ibdev)
	f.unsys("class/infiniband/" + ibdev)
	f.unsys(function + "/infiniband")
	if !keepDriver {
		f.unsys(function + "/driver")
	}
}

// interrupt puts an interrupt of the function of an HCA.
func (f *fake) interrupt(ibdev string) { f.sys(f.function(ibdev)+"/msi_irqs/80", "msix\n") }

// function returns the directory below /sys of the function of an HCA.
func (f *fake) function(ibdev string) string {
	e, err := f.machine.Tree().Resolve("sys/class/infiniband/" + ibdev)
	must.NoError(f.t, err)
	function, _, _ := strings.Cut(strings.TrimPrefix(e.Path, "sys/"), "/infiniband/")
	return function
}

const (
	lost    = "0000:61:00.0"
	mlx5    = "15b3"
	cx7     = "1021"
	ibClass = "020700"
)

// A function that has no RDMA device and must have one is named, with the reason.
var functionFaults = []fault{
	{
		name: "InfiniBand function that its driver rejected",
		plant: func(f *fake) {
			f.load("mlx5_core", "mlx5_ib")
			f.pci(lost, mlx5, cx7, ibClass, "")
		},
		id: "hca-lost", severity: Error, subject: lost, reason: "rejected", fix: "drivers_probe",
	},
	{
		name: "Ethernet function like others that its driver rejected",
		plant: func(f *fake) {
			f.load("mlx5_core", "mlx5_ib")
			f.pci(lost, mlx5, "101d", "020000", "")
		},
		id: "hca-lost", severity: Warning, subject: lost, fix: "dmesg | grep -F " + lost,
	},
	{
		name: "InfiniBand function that its driver gave up",
		plant: func(f *fake) {
			f.load("mlx5_core", "mlx5_ib")
			f.pci(lost, mlx5, cx7, ibClass, "mlx5_core")
		},
		id: "hca-lost", severity: Error, subject: lost, reason: "gave up",
		fix: "echo " + lost + " > /sys/bus/pci/devices/" + lost + "/driver/unbind && echo " + lost +
			" > /sys/bus/pci/drivers_probe",
	},
	{
		name: "Ethernet function that its driver gave up",
		plant: func(f *fake) {
			f.load("mlx5_core", "mlx5_ib")
			f.interrupt("mlx5_0")
			f.pci(lost, mlx5, cx7, "020000", "mlx5_core")
			f.sys("bus/pci/devices/"+lost+"/net/ens9np0/operstate", "down\n")
		},
		id: "hca-lost", severity: Warning, subject: lost, reason: "gave up",
	},
	{
		name: "EFA that its driver gave up", machine: "aws-p5",
		plant: func(f *fake) {
			f.alias("pci:v00001D0Fd0000EFA1sv*sd*bc*sc*i*", "efa")
			f.load("efa")
			f.lose("rdmap79s0", true)
		},
		id: "hca-lost", severity: Error, subject: "0000:4f:00.0",
	},
	{
		name: "auxiliary device that its RDMA driver rejected", machine: "irdma-e810",
		plant: func(f *fake) {
			f.load("irdma", "ice")
			f.pci(lost, "8086", "1592", "020000", "ice")
			f.auxiliary(lost, "ice.roce.7", "")
		},
		id: "hca-lost", severity: Warning, subject: lost, reason: "irdma",
		fix: "echo ice.roce.7 > /sys/bus/auxiliary/drivers_probe",
	},
	{
		name: "auxiliary device of an SF that its RDMA driver rejected", machine: "mlx5-sf",
		plant: func(f *fake) {
			f.load("mlx5_core", "mlx5_ib")
			f.auxiliary("0000:c1:00.0/mlx5_core.sf.9", "mlx5_core.rdma.9", "")
		},
		id: "hca-lost", severity: Warning, subject: "mlx5_core.sf.9", fix: "dmesg | grep -F mlx5_core.sf.9",
	},
	{
		name: "RDMA driver not loaded",
		plant: func(f *fake) {
			f.load("mlx5_core", "mlx5_ib", "bnxt_en")
			f.pci(lost, "14e4", "1750", "020000", "bnxt_en")
			f.auxiliary(lost, "bnxt_en.rdma.0", "")
		},
		id: "driver-missing", severity: Warning, subject: lost, fix: "modprobe bnxt_re",
	},
	{
		name: "InfiniBand function, RDMA driver not loaded, no auxiliary bus", machine: "none",
		plant: func(f *fake) {
			f.load("mlx5_core")
			f.replace(modulesAlias, "alias auxiliary:mlx5_core.rdma mlx5_ib\n", "")
			f.replace(modulesAlias, "alias auxiliary:mlx5_core.rdma-rep mlx5_ib\n", "")
			f.replace(modulesAlias, "alias auxiliary:mlx5_core.multiport mlx5_ib\n", "")
			f.pci(lost, mlx5, cx7, ibClass, "mlx5_core")
		},
		id: "driver-missing", severity: Error, subject: lost, fix: "modprobe mlx5_ib",
	},
	{
		name: "InfiniBand function, the kernel's tables unknown", machine: "none",
		plant: func(f *fake) {
			f.remove(modulesAlias)
			f.pci(lost, mlx5, cx7, ibClass, "")
		},
		id: "driver-missing", severity: Error, subject: lost,
		fix: "modprobe \"$(cat /sys/bus/pci/devices/" + lost + "/modalias)\"",
	},
	{
		name: "no RDMA device, the kernel's tables unknown", machine: "none",
		plant: func(f *fake) { f.remove(osrelease) },
		id:    "no-hca", severity: Warning, reason: "is not known: " + osrelease + " cannot be read",
	},
	{
		name: "no RDMA device, kernel without RDMA drivers", machine: "none",
		plant: func(f *fake) { f.file("/lib/modules/"+release+"/modules.dep", "kernel/fs/ext4.ko:\n") },
		id:    "no-hca", severity: Warning, reason: "names no RDMA driver",
	},
	{
		name: "no RDMA device, a driver that says nothing of RDMA", machine: "none",
		plant: func(f *fake) {
			f.load("cxgb4")
			f.pci(lost, "1425", "5401", "020000", "cxgb4")
		},
		id: "no-hca", severity: Warning, reason: lost + " can do RDMA is not known",
		fix: "modprobe iw_cxgb4\nmodprobe rdma_rxe",
	},
}

const modulesAlias = "/lib/modules/" + release + "/modules.alias"

// alias adds a line to the kernel's table of aliases, and the RDMA driver to that of dependencies.
func (f *fake) alias(pattern, module string) {
	add := func(name, line string) {
		f.file(name, string(f.root[strings.TrimPrefix(name, "/")].Data)+line)
	}
	add(modulesAlias, "alias "+pattern+" "+module+"\n")
	add("/lib/modules/"+release+"/modules.dep", "kernel/drivers/infiniband/hw/"+module+"/"+module+".ko:\n")
}

// A function that needs no RDMA device, or may need none, is not named.
func TestNoLoss(t *testing.T) {
	const port2 = "0000:61:00.1"
	dir := "bus/pci/devices/" + port2
	for name, plant := range map[string]func(*fake){
		"second port of a bond": func(f *fake) {
			f.pci(port2, mlx5, cx7, "020000", "mlx5_core")
			f.sys(dir+"/net/ens1f1np1/bonding_slave/state", "active\n")
		},
		"second port of a bond, of a driver that binds PCI functions itself": func(f *fake) {
			f.alias("pci:v000019E5d0000A222sv*sd*bc*sc*i*", "hns3")
			f.alias("pci:v000019E5d0000A222sv*sd*bc*sc*i*", "hns_roce_hw_v2")
			f.load("hns_roce_hw_v2")
			f.pci(port2, "19e5", "a222", "020000", "hns3")
			f.sys(dir+"/net/enp125s0f1/bonding_slave/state", "active\n")
		},
		"RDMA off by devlink": func(f *fake) {
			f.interrupt("mlx5_0")
			f.pci(port2, mlx5, cx7, "020000", "mlx5_core")
			f.sys(dir+"/msi_irqs/90", "msix\n")
			f.sys(dir+"/net/ens1f1np1/operstate", "up\n")
			f.auxiliary(port2, "mlx5_core.eth.1", "mlx5_core.eth")
		},
		"RDMA off by devlink, InfiniBand": func(f *fake) {
			f.load("mlx5_core", "mlx5_ib")
			f.pci(port2, mlx5, cx7, ibClass, "mlx5_core")
			f.sys(dir+"/msi_irqs/90", "msix\n")
		},
		"second port of a dual-port device": func(f *fake) {
			f.pci(port2, mlx5, cx7, ibClass, "mlx5_core")
			f.auxiliary(port2, "mlx5_core.multiport.1", "mlx5_ib.multiport")
		},
		"switchdev port that shares the device of the other": func(f *fake) {
			f.pci(port2, mlx5, cx7, "020000", "mlx5_core")
			f.auxiliary(port2, "mlx5_core.rdma-rep.1", "mlx5_ib.rep")
		},
		"virtual machine's function":       func(f *fake) { f.pci(port2, mlx5, cx7, ibClass, "vfio-pci") },
		"function of a user-space network": func(f *fake) { f.pci(port2, "8086", "1592", "020000", "igb_uio") },
		"VF that waits for a virtual machine": func(f *fake) {
			f.pci(port2, mlx5, "101e", ibClass, "")
			f.syslink(dir+"/physfn", "../0000:61:00.0")
		},
		"VF in use as an interface only": func(f *fake) {
			f.pci(port2, mlx5, "101e", "020000", "mlx5_core")
			f.syslink(dir+"/physfn", "../0000:61:00.0")
		},
		"Data Direct": func(f *fake) { f.pci(port2, mlx5, "2100", ibClass, "mlx5_ib") },
		"Data Direct, kernel without its driver": func(f *fake) {
			f.load("mlx5_core", "mlx5_ib")
			f.pci(port2, mlx5, "2100", ibClass, "")
		},
		"interface card without RDMA":             func(f *fake) { f.pci(port2, "8086", "1572", "020000", "i40e") },
		"card of another driver":                  func(f *fake) { f.pci(port2, "8086", "15bb", "020000", "") },
		"adapter whose driver is out of the tree": func(f *fake) { f.pci(port2, "1fff", "0001", "020000", "") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, "hgx-h100")
			plant(f)
			if got := troubles(f.diagnose()); len(got) > 0 {
				t.Errorf("found %v", got)
			}
		})
	}
}

// A DMA function has no RDMA device, even where the kernel's table has an alias for it.
func TestNoLossOfDataDirect(t *testing.T) {
	f := newFake(t, "gb300-cx8")
	f.alias("pci:v000015B3d00002100sv*sd*bc*sc*i*", "mlx5_ib")
	f.load("mlx5_core", "mlx5_ib")
	if got := troubles(f.diagnose()); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// In exclusive mode the RDMA device of a bound function may be in a container.
func TestNoLossInExclusiveMode(t *testing.T) {
	f := newFake(t, "exclusive-netns")
	f.load("mlx5_core", "mlx5_ib")
	f.pci(lost, mlx5, cx7, ibClass, "mlx5_core")
	if got := troubles(f.diagnose()); slices.Contains(got, "hca-lost") {
		t.Errorf("found %v", got)
	}
}

// No machine that the tests model has lost an HCA where the kernel's tables are unknown. TestHealthy has them all with
// tables.
func TestMachinesLostNothing(t *testing.T) {
	for _, machine := range fixture.Names() {
		f := newFake(t, machine)
		f.remove(modulesAlias)
		if got := troubles(f.diagnose()); slices.Contains(got, "hca-lost") || slices.Contains(got, "driver-missing") {
			t.Errorf("%s: found %v", machine, got)
		}
	}
}

// A host with HCAs of two vendors that lost one of each: both are named.
func TestTwoVendors(t *testing.T) {
	f := newFake(t, "hgx-h100")
	f.load("mlx5_core", "mlx5_ib", "bnxt_en", "bnxt_re")
	f.pci("0000:71:00.0", "14e4", "1750", "020000", "bnxt_en") // well
	f.sys("bus/pci/devices/0000:71:00.0/infiniband/bnxt_re0/fw_ver", "1\n")
	f.auxiliary("0000:71:00.0", "bnxt_en.rdma.0", "bnxt_re")
	f.pci("0000:71:00.1", "14e4", "1750", "020000", "bnxt_en")
	f.auxiliary("0000:71:00.1", "bnxt_en.rdma.1", "")
	f.lose("mlx5_3", false)
	var subjects []string
	for _, finding := range f.diagnose().Findings {
		if finding.ID == "hca-lost" {
			subjects = append(subjects, finding.Subjects...)
		}
	}
	slices.Sort(subjects)
	test.Eq(t, []string{"0000:4b:00.0", "0000:71:00.1"}, subjects, test.Sprint("lost"))
}

// The modalias of the kernel and the IDs of an incomplete sysfs say the same.
func TestModalias(t *testing.T) {
	f := newFake(t, "none")
	f.pci(lost, "15B3", cx7, ibClass, "")
	f.sys("bus/pci/devices/"+lost+"/subsystem_vendor", "0x15b3\n")
	f.sys("bus/pci/devices/"+lost+"/subsystem_device", "0x0023\n")
	f.sys("bus/pci/devices/0000:62:00.0/modalias", "pci:v000015B3d00001021sv000015B3sd00000023bc02sc07i00\n")
	r := &reader{Host: &Host{Sys: f.machine.OpenFS()}}
	want := r.pciFunction("0000:62:00.0")
	got := r.pciFunction(lost)
	got.address = want.address
	if got != want || want.class != ibClass || want.vendor != mlx5 || want.device != cx7 {
		t.Errorf("from IDs %+v\nfrom modalias %+v", got, want)
	}
}
