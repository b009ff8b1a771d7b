package topology_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// pciFunction is a function of a machine that is written in a test.
type pciFunction struct {
	Path   string // below /sys/devices
	Class  string
	Vendor string
	NUMA   int
	PF     string
}

func machine(t testing.TB, functions ...pciFunction) *fixture.Machine {
	t.Helper()
	var b strings.Builder
	b.WriteString("Made for one test.\n\n-- sys/class/ --\n")
	for _, f := range functions {
		dir, address := "sys/devices/"+f.Path, f.Path[strings.LastIndex(f.Path, "/")+1:]
		fmt.Fprintf(&b, "-- sys/bus/pci/devices/%s -> ../../../devices/%s --\n", address, f.Path)
		if f.Class != "" {
			fmt.Fprintf(&b, "-- %s/class --\n%s\n", dir, f.Class)
		}
		fmt.Fprintf(&b, "-- %s/vendor --\n0x%s\n-- %s/device --\n0x0001\n-- %s/numa_node --\n%d\n", dir,
			f.Vendor, dir, dir, f.NUMA)
		if f.PF != "" {
			fmt.Fprintf(&b, "-- %s/physfn -> ../%s --\n", dir, f.PF)
		}
	}
	m, err := fixture.Parse("odd", []byte(b.String()))
	must.NoError(t, err)
	return m
}

// TestOddMachines: what counts as an accelerator, by class and vendor, how they are numbered, and which bridges are
// drawn.
func TestOddMachines(t *testing.T) {
	golden.Cases(t, "odd", func(t *testing.T, functions []pciFunction) string {
		host, out := discoverMachine(t, machine(t, functions...)), ""
		for _, d := range host.Devices {
			out += fmt.Sprintf("%s %s %s, VFs: %d\n", d.Name, d.Kind, d.Address, d.VFs)
		}
		out += string(written(t, func(w io.Writer) error { return host.WriteTree(w, topology.ASCIILines) }))
		out += string(written(t, host.WriteMatrix))
		nodes, err := json.Marshal(host.NUMANodes)
		must.NoError(t, err)
		return out + string(nodes)
	})
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
