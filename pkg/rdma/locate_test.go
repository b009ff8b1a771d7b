package rdma

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLocate: where a device stands, whatever its path starts with.
func TestLocate(t *testing.T) {
	for _, test := range []struct {
		path string
		want place
	}{
		{"devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", place{
			dir:     "devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0",
			address: "0000:19:00.0", root: "pci0000:15", bridges: []string{"0000:15:01.0", "0000:16:00.0", "0000:17:01.0"},
		}},
		{"devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531444234/pci7870:00/7870:00:00.0", place{
			dir:     "devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531444234/pci7870:00/7870:00:00.0",
			address: "7870:00:00.0", root: "pci7870:00",
		}},
		{"devices/platform/3f000000.pcie/pci0003:00/0003:00:00.0/0003:01:00.1", place{
			dir:     "devices/platform/3f000000.pcie/pci0003:00/0003:00:00.0/0003:01:00.1",
			address: "0003:01:00.1", root: "pci0003:00", bridges: []string{"0003:00:00.0"},
		}},
		{"devices/pci0000:80/0000:80:06.0/pci10000:00/10000:00:02.0/10000:01:00.0", place{ // behind Intel VMD
			dir:     "devices/pci0000:80/0000:80:06.0/pci10000:00/10000:00:02.0/10000:01:00.0",
			address: "10000:01:00.0", root: "pci0000:80", bridges: []string{"10000:00:02.0"},
		}},
		{"devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0/mlx5_core.sf.4", place{
			dir:     "devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0",
			address: "0000:c1:00.0", root: "pci0000:c0", bridges: []string{"0000:c0:01.1"}, aux: "mlx5_core.sf.4",
		}},
		{"devices/virtual", place{}},
		{"devices/pci0000:00", place{root: "pci0000:00"}},
		{"", place{}},
	} {
		if diff := cmp.Diff(test.want, locate(test.path), cmp.AllowUnexported(place{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.path, diff)
		}
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
		if got := (&PCIFunction{Bridges: strings.Fields(bridges)}).Switch(); got != want {
			t.Errorf("bridges %q: switch %q; want %q", bridges, got, want)
		}
	}
}
