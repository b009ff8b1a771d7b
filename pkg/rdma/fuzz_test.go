package rdma

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// A parser must not panic, and what it accepts it must have understood: printed
// in the kernel's form it is what was read.

func FuzzParseGUID(f *testing.F) {
	for _, s := range []string{"a088:c203:003f:1a2b", "0000:0000:0000:0000", "cd77:f833:0000:1001", "", "fe80::1",
		"A088:C203:003F:1A2B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGUID(s)
		test.True(t, err != nil || g.String() == strings.ToLower(s), test.Sprintf("%q reads as %s", s, g))
	})
}

func FuzzParseGIDPrefix(f *testing.F) {
	for _, s := range []string{"fe80:0000:0000:0000:a088:c203:003f:1a2b",
		"0000:0000:0000:0000:0000:ffff:0a00:0001", "fe80::1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGIDPrefix(s)
		if err == nil && (len(s) != 39 || g.String() != strings.ToLower(s[:19])) {
			t.Errorf("%q reads as %s", s, g)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)", "10 Gb/sec (4X)", "40 Gb/sec (4X QDR)",
		"400 Gb/sec (8X HDR)", "", "-1 Gb/sec", "1.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mbps, err := ParseRate(s)
		if err != nil {
			return
		}
		printed := fmt.Sprintf("%d", mbps/1000)
		if mbps%1000 != 0 {
			printed += ".5"
		}
		test.True(t, mbps >= 0 &&
			strings.HasPrefix(strings.TrimLeft(s, "0"), strings.TrimLeft(printed, "0")+" Gb/sec"),
			test.Sprintf("%q reads as %d", s, mbps))
	})
}

func FuzzWord(f *testing.F) {
	for _, s := range []string{"4: ACTIVE", "1: CA", "7: unspecified", "5: LinkUp", "0: <unknown>", "7: Phy Test",
		"4:ACTIVE", ": ", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := word(s)
		if err != nil {
			return
		}
		if number, ok := strings.CutSuffix(s, ": "+w); !ok || strings.Trim(number, "0123456789") != "" {
			t.Errorf("%q reads as %q", s, w)
		}
	})
}

func FuzzParseDev(f *testing.F) {
	for _, s := range []string{"231:192", "231:0", "235:7", "10:260", "4095:1048575", "4096:0", ":", "", "garbage"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		major, minor, err := ParseDev(s)
		if err != nil {
			return
		}
		again, min2, err := ParseDev(fmt.Sprintf("%d:%d", major, minor))
		test.True(t, err == nil && again == major && min2 == minor && major < 1<<12 && minor < 1<<20,
			test.Sprintf("%q reads as %d:%d, and that as %d:%d, error %v", s, major, minor, again, min2, err))
	})
}

func FuzzParsePCIAddress(f *testing.F) {
	for _, s := range []string{"0000:3b:00.0", "10000:01:1f.7", "B266:00:02.0", "ffffffff:ff:1f.7", "0000:3b:20.0",
		"3b:00.0", "", "../.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		address, ok := parsePCIAddress(s)
		if !ok {
			return
		}
		again, ok := parsePCIAddress(address.String())
		test.True(t, ok && again == address && strings.HasSuffix(strings.ToLower(s), address.String()),
			test.Sprintf("%q reads as %q, and that as %q, ok %v", s, address, again, ok))
	})
}

// FuzzLocate: any path has a place whose parts are parts of the path.
func FuzzLocate(f *testing.F) {
	for _, s := range []string{
		"devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0",
		"devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0/mlx5_core.sf.4",
		"devices/platform/x/pci0003:00/0003:00:00.0",
		"devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:01:00.0",
		"devices/virtual", "", "//", "pci0000:00/../0000:00:00.0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := PlaceOf(s)
		parts := strings.Split(s, "/")
		for _, part := range append([]string{p.Root, p.Address, p.aux}, p.Bridges...) {
			test.True(t, part == "" || slices.Contains(parts, part),
				test.Sprintf("%q: %q is no part of it: %+v", s, part, p))
		}
		if p.Address == "" && (p.dir != "" || p.aux != "" || len(p.Bridges) > 0) ||
			p.Address != "" && !strings.HasSuffix(p.dir, p.Address) {
			t.Errorf("%q: %+v", s, p)
		}
	})
}
