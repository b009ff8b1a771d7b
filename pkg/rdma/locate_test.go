package rdma

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
)

// hyperV is the directory of a bus on Hyper-V.
const hyperV = "devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531444234"

// TestPlaceOf: where a device stands, whatever its path starts with.
func TestPlaceOf(t *testing.T) {
	for _, c := range []struct {
		path string
		want Place
	}{
		{"devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", Place{
			dir:     "devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0",
			Address: "0000:19:00.0", Root: "pci0000:15", Bridges: []string{"0000:15:01.0", "0000:16:00.0", "0000:17:01.0"},
		}},
		{hyperV + "/pci7870:00/7870:00:00.0", Place{
			dir:     hyperV + "/pci7870:00/7870:00:00.0",
			Address: "7870:00:00.0", Root: "pci7870:00",
		}},
		{"devices/platform/3f000000.pcie/pci0003:00/0003:00:00.0/0003:01:00.1", Place{
			dir:     "devices/platform/3f000000.pcie/pci0003:00/0003:00:00.0/0003:01:00.1",
			Address: "0003:01:00.1", Root: "pci0003:00", Bridges: []string{"0003:00:00.0"},
		}},
		{"devices/pci0000:80/0000:80:06.0/pci10000:00/10000:00:02.0/10000:01:00.0", Place{ // behind Intel VMD
			dir:     "devices/pci0000:80/0000:80:06.0/pci10000:00/10000:00:02.0/10000:01:00.0",
			Address: "10000:01:00.0", Root: "pci0000:80", Bridges: []string{"10000:00:02.0"},
		}},
		{"devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0/mlx5_core.sf.4", Place{
			dir:     "devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0",
			Address: "0000:c1:00.0", Root: "pci0000:c0", Bridges: []string{"0000:c0:01.1"}, aux: "mlx5_core.sf.4",
		}},
		{"devices/virtual", Place{}},
		{"devices/pci0000:00", Place{Root: "pci0000:00"}},
		{"", Place{}},
	} {
		test.Eq(t, c.want, PlaceOf(c.path), test.Cmp(cmp.AllowUnexported(Place{})), test.Sprint(c.path))
	}
}

func TestSwitch(t *testing.T) {
	for bridges, want := range map[string]string{
		"":                       "",
		"root":                   "",
		"root up":                "",
		"root up down":           "up",
		"root up1 down1 up down": "up",
	} {
		test.Eq(t, want, (&PCIFunction{Bridges: strings.Fields(bridges)}).Switch(),
			test.Sprintf("bridges %q: switch", bridges))
	}
}
