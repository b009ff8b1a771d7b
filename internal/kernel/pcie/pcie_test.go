package pcie_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/pcie"
)

// sysOf is a /sys with files of PCI devices.
func sysOf(files map[string]string) fstest.MapFS {
	sys := fstest.MapFS{}
	for name, content := range files {
		sys["bus/pci/devices/"+name] = &fstest.MapFile{Data: []byte(content)}
	}
	return sys
}

// TestNarrowest: the narrowest link of a path, wherever it is; and nothing if one cannot be read.
func TestNarrowest(t *testing.T) {
	const speed, width = "/current_link_speed", "/current_link_width"
	for want, files := range map[string]map[string]string{
		"32x16 card true":  {},
		"16x16 port true":  {"port" + speed: "16.0 GT/s PCIe\n"},
		"32x8 card true":   {"card" + width: "8\n"},
		"2.5x1 root true":  {"root" + speed: "2.5 GT/s PCIe\n", "root" + width: "1\n"},
		"0x0  false":       {"card" + speed: "Unknown\n"},
		"0x0  false down":  {"root" + width: "0\n"},
		"0x0  false at 63": {"root" + width: "63\n"},
		"0x0  false unit":  {"root" + speed: "5 MT/s\n"},
		"0x0  false gone":  {"port" + width: ""},
	} {
		all := map[string]string{}
		for _, device := range []string{"card", "port", "root"} {
			all[device+speed], all[device+width] = "32.0 GT/s PCIe\n", "16\n"
		}
		for name, content := range files {
			all[name] = content
		}
		link, at, known := pcie.Narrowest(sysOf(all), []string{"card", "port", "root"})
		if got := fmt.Sprintf("%vx%d %s %v", float64(link.MTs)/1000, link.Lanes, at, known); got != want &&
			got+want[min(len(got), len(want)):] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, _, known := pcie.Narrowest(sysOf(nil), nil); known {
		t.Error("a path without links has a narrowest one")
	}
}

// TestErrors: the errors of both ends are added, without those that a program can cause.
func TestErrors(t *testing.T) {
	got := pcie.Errors(sysOf(map[string]string{
		"card/aer_dev_correctable": "RxErr 1\nBadTLP 2\nBadDLLP 0\nRollover 0\nTOTAL_ERR_COR 3\n",
		"port/aer_dev_correctable": "RxErr 4\nTOTAL_ERR_COR 4\n",
		"card/aer_dev_nonfatal":    "Undefined 0\nDLP 1\nUnsupReq 70\nACSViol 3\nCmpltTO 9\nTOTAL_ERR_NONFATAL 83\n",
		"port/aer_dev_nonfatal":    "MalfTLP 2\nDLP x\n",
	}), "card", "port", "none")
	want := map[string]uint64{pcie.Correctable: 7, pcie.Nonfatal: 3}
	test.Eq(t, want, got, test.Sprint("errors"))
}
