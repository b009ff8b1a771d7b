package topology_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// pciFunction is a function of a machine that is written in a test.
type pciFunction struct {
	path   string // below /sys/devices
	class  string
	vendor string
	numa   int
	pf     string
}

func machine(t testing.TB, functions ...pciFunction) *fixture.Machine {
	t.Helper()
	var b strings.Builder
	b.WriteString("Made for one test.\n\n-- sys/class/ --\n")
	for _, f := range functions {
		dir, address := "sys/devices/"+f.path, f.path[strings.LastIndex(f.path, "/")+1:]
		fmt.Fprintf(&b, "-- sys/bus/pci/devices/%s -> ../../../devices/%s --\n", address, f.path)
		if f.class != "" {
			fmt.Fprintf(&b, "-- %s/class --\n%s\n", dir, f.class)
		}
		fmt.Fprintf(&b, "-- %s/vendor --\n0x%s\n-- %s/device --\n0x0001\n-- %s/numa_node --\n%d\n", dir,
			f.vendor, dir, dir, f.numa)
		if f.pf != "" {
			fmt.Fprintf(&b, "-- %s/physfn -> ../%s --\n", dir, f.pf)
		}
	}
	m, err := fixture.Parse("odd", []byte(b.String()))
	must.NoError(t, err)
	return m
}

// TestAccelerators: what counts as one, by class and vendor, and in which order
// they are numbered.
func TestAccelerators(t *testing.T) {
	host := discoverMachine(t, machine(t,
		pciFunction{path: "pci10000:00/10000:00:00.0", class: "0x030200",
			vendor: "10de"}, // last: its domain is the largest
		pciFunction{path: "pci0000:00/0000:00:01.0", class: "0x030000",
			vendor: "1a03"}, // management processor
		pciFunction{path: "pci0000:00/0000:00:02.0", class: "0x030000",
			vendor: "8086"}, // a VGA controller that computes
		pciFunction{path: "pci0000:00/0000:00:03.0", class: "0x120000", vendor: "1da3"}, // Gaudi
		pciFunction{path: "pci0000:00/0000:00:04.0", class: "0x120000", vendor: "1002"}, // Instinct
		pciFunction{path: "pci0000:00/0000:00:05.0", class: "0x038000",
			vendor: "1002"}, // Instinct, older
		pciFunction{path: "pci0000:00/0000:00:06.0", class: "0x068000", vendor: "10de"}, // NVSwitch
		pciFunction{path: "pci0000:00/0000:00:07.0", class: "0x120000",
			vendor: "19e5"}, // Ascend, of a vendor of displays
		pciFunction{path: "pci0000:00/0000:00:08.0", class: "", vendor: "10de"},                             // no class file
		pciFunction{path: "pci0000:00/0000:00:09.0", class: "0x03", vendor: "10de"},                         // no class
		pciFunction{path: "pci0000:00/0000:00:05.1", class: "0x038000", vendor: "1002", pf: "0000:00:05.0"}, // VF
	))
	var got []string
	for _, d := range host.Devices {
		got = append(got, fmt.Sprintf("%s %s %s %d", d.Name, d.Kind, d.Address, d.VFs))
	}
	want := []string{
		"GPU0 gpu 0000:00:02.0 0",
		"ACC0 accelerator 0000:00:03.0 0",
		"GPU1 gpu 0000:00:04.0 0",
		"GPU2 gpu 0000:00:05.0 1",
		"ACC1 accelerator 0000:00:07.0 0",
		"GPU3 gpu 10000:00:00.0 0",
	}
	test.Eq(t, want, got, test.Sprint("accelerators"))
}

// TestFolding: which bridges are drawn.
func TestFolding(t *testing.T) {
	const gpu, root = "0x030200", "pci0000:00/0000:00:01.0/"
	host := discoverMachine(t, machine(t,
		// A switch in a switch, with a GPU below each.
		pciFunction{path: root + "0000:01:00.0/0000:02:00.0/0000:03:00.0", class: gpu, vendor: "10de"},
		pciFunction{path: root + "0000:01:00.0/0000:02:01.0/0000:04:00.0/0000:05:00.0/0000:06:00.0",
			class: gpu, vendor: "10de"},
		// Two cards below a conventional bridge.
		pciFunction{path: "pci0000:00/0000:00:02.0/0000:07:01.0", class: gpu, vendor: "10de", numa: 1},
		pciFunction{path: "pci0000:00/0000:00:02.0/0000:07:02.0", class: gpu, vendor: "10de", numa: 1},
		// One card with two functions behind a port.
		pciFunction{path: "pci0000:00/0000:00:03.0/0000:08:00.0", class: gpu, vendor: "10de"},
		pciFunction{path: "pci0000:00/0000:00:03.0/0000:08:00.1", class: gpu, vendor: "10de"},
	))
	got := "\n" + string(written(t, func(w io.Writer) error { return host.WriteTree(w, topology.ASCIILines) }))
	want := `
NUMA node not known
` + "`" + `- root pci0000:00
   |- GPU4  0000:08:00.0  NVIDIA 10de:0001
   |- GPU5  0000:08:00.1  NVIDIA 10de:0001
   |- bridge 0000:00:02.0
   |  |- GPU2  0000:07:01.0  NVIDIA 10de:0001
   |  ` + "`" + `- GPU3  0000:07:02.0  NVIDIA 10de:0001
   ` + "`" + `- switch 0000:01:00.0
      |- GPU0  0000:03:00.0  NVIDIA 10de:0001
      ` + "`" + `- switch 0000:04:00.0
         ` + "`" + `- GPU1  0000:06:00.0  NVIDIA 10de:0001
`
	test.Eq(t, want, got, test.Sprint("tree"))
	gpus := host.Accelerators()
	test.Eq(t, topology.PXB, topology.Between(gpus[0], gpus[1]), test.Sprint("GPU0 to GPU1"))
	via := host.NUMANodes[0].Roots[0].Children[0].Via
	test.Eq(t, []string{"0000:00:03.0"}, via, test.Sprint("ports above GPU4"))
}

// TestUnreadable: what cannot be read is said, and hides nothing else.
func TestUnreadable(t *testing.T) {
	const archive = `Made for one test.

-- sys/class/ --
-- sys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0 --
-- sys/bus/pci/devices/0000:02:00.0 -> ../../../devices/pci0000:00/0000:02:00.0 --
-- sys/bus/pci/devices/0000:03:00.0 -> ../../../devices/virtual/nothing --
-- sys/bus/pci/devices/0000:04:00.0/class --
0x030200
-- sys/devices/virtual/nothing/class --
0x030200
-- sys/devices/pci0000:00/0000:01:00.0/class --
0x030200
-- sys/devices/pci0000:00/0000:02:00.0/class !EIO --
`
	m, err := fixture.Parse("odd", []byte(archive))
	must.NoError(t, err)
	host := discoverMachine(t, m)
	test.True(t, len(host.Devices) == 1 && host.Devices[0].Address == "0000:01:00.0" &&
		host.Devices[0].NUMANode == nil, test.Sprintf("devices: %+v; want the GPU that can be read", host.Devices))
	var got []string
	for _, p := range host.Problems {
		got = append(got, p.Message)
	}
	for _, want := range []string{"0000:02:00.0/class: input/output error", `no PCI function in "../../../devices/virtual/nothing"`, "read device link: readlink bus/pci/devices/0000:04:00.0"} {
		test.StrContains(t, strings.Join(got, "\n"), want, test.Sprintf("problems %q; want one", got))
	}
}
