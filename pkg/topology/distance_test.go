package topology_test

import (
	"strings"
	"testing"

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
		if got := topology.Between(a, b); got != c.want {
			t.Errorf("%s: %s; want %s", c.why, got, c.want)
		}
		if got := topology.Between(b, a); got != c.want {
			t.Errorf("%s, the other way: %s; want %s", c.why, got, c.want)
		}
	}
}

func TestBetweenSpecialCases(t *testing.T) {
	d, soft := at("0000:01:00.0", "pci0000:00", 0), &topology.Device{Name: "rxe0"}
	if got := topology.Between(d, d); got != topology.Self {
		t.Errorf("a device and itself: %s", got)
	}
	if got := topology.Between(soft, soft); got != topology.Self {
		t.Errorf("a software HCA and itself: %s", got)
	}
	if got := topology.Between(d, soft); got != topology.Unknown {
		t.Errorf("a device and a software HCA: %s", got)
	}
	// Two HCAs of one function: azure-mana, smi-multiplane.
	if got := topology.Between(d, at("0000:01:00.0", "pci0000:00", 0)); got != topology.PIX {
		t.Errorf("two devices of one function: %s", got)
	}
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
		if near != 1 {
			t.Errorf("%s has %d HCAs at PIX; want one", m.Rows[i], near)
		}
	}
}
