package topology_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// at returns a device at a path "pci0000:00/rp/up/down", on a NUMA node or, for a
// negative one, on none that is known.
func at(address, path string, numa int) *topology.Device {
	parts := strings.Split(path, "/")
	d := &topology.Device{Name: address, Address: address, Root: parts[0], Bridges: parts[1:]}
	if numa >= 0 {
		d.NUMANode = &numa
	}
	return d
}

// TestBetween: each distance by the path that makes it.
func TestBetween(t *testing.T) {
	const gpu = "pci0000:15/rp/up/down0"
	for _, c := range []struct {
		why    string
		a, b   string
		an, bn int
		want   topology.Distance
	}{
		{"one switch", gpu, "pci0000:15/rp/up/down1", 0, 0, topology.PIX},
		{"two functions of a card below a switch", gpu, gpu, 0, 0, topology.PIX},
		{"two functions of a card below a root port", "pci0000:15/rp", "pci0000:15/rp", 0, 0, topology.PIX},
		{"a second switch below one side, as in a BlueField", gpu, "pci0000:15/rp/up/down1/up2/down2", 0, 0, topology.PXB},
		{"a second switch below both sides", "pci0000:15/rp/up/a/up1/x", "pci0000:15/rp/up/b/up2/y", 0, 0, topology.PXB},
		{"two root ports", gpu, "pci0000:15/rp2", 0, 0, topology.PHB},
		{"no bridges", "pci0000:00", "pci0000:00", -1, -1, topology.PHB},
		{"one root, whatever the NUMA nodes say", "pci0000:00/a", "pci0000:00/b", 0, 1, topology.PHB},
		{"two roots", gpu, "pci0000:26/rp/up/down0", 0, 0, topology.NODE},
		{"two roots, bridges of one name", gpu, "pci0001:15/rp/up/down0", 1, 1, topology.NODE},
		{"two NUMA nodes", gpu, "pci0000:59/rp/up/down0", 0, 1, topology.SYS},
		{"one NUMA node not known", gpu, "pci0000:59/rp/up/down0", 0, -1, topology.Unknown},
		{"both not known: that is not the same node", gpu, "pci0000:59/rp", -1, -1, topology.Unknown},
	} {
		a, b := at("0000:01:00.0", c.a, c.an), at("0000:02:00.0", c.b, c.bn)
		test.Eq(t, c.want, topology.Between(a, b), test.Sprint(c.why))
		test.Eq(t, c.want, topology.Between(b, a), test.Sprintf("%s, the other way", c.why))
	}
}

func TestBetweenSpecialCases(t *testing.T) {
	d, soft := at("0000:01:00.0", "pci0000:00", 0), &topology.Device{Name: "rxe0"}
	test.Eq(t, topology.Self, topology.Between(d, d), test.Sprint("a device and itself"))
	test.Eq(t, topology.Self, topology.Between(soft, soft), test.Sprint("a software HCA and itself"))
	test.Eq(t, topology.Unknown, topology.Between(d, soft), test.Sprint("a device and a software HCA"))
	// Two HCAs of one function: azure-mana, smi-multiplane.
	test.Eq(t, topology.PIX, topology.Between(d, at("0000:01:00.0", "pci0000:00", 0)),
		test.Sprint("two devices of one function"))
}

// TestEveryPairOfAMachine: the GPU of an HGX below its switch is nearest to the
// HCA there, which is what the picture is for.
func TestEveryPairOfAMachine(t *testing.T) {
	host := discover(t, "hgx-h100")
	m := topology.NewMatrix(host.Accelerators(), host.HCAs())
	for i, row := range m.Cells {
		near := 0
		for _, d := range row {
			if d == topology.PIX {
				near++
			}
		}
		test.Eq(t, 1, near, test.Sprintf("%s", m.Rows[i]))
	}
}
