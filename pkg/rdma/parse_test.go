package rdma

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// The strings are what kernels print, where the test says nothing else.

func TestParseGUID(t *testing.T) {
	for _, c := range []struct {
		in   string
		want GUID
		bad  string
	}{
		{in: "a088:c203:003f:1a2b", want: 0xa088c203003f1a2b},
		{in: "0000:0000:0000:0000", want: 0},
		{in: "ffff:ffff:ffff:ffff", want: 0xffffffffffffffff},
		{in: "", bad: "have 1"},
		{in: "a088:c203:003f", bad: "have 3"},
		{in: "a088:c203:003f:1a2b:0000", bad: "have 5"},
		{in: "a088:c203:003f:1a2", bad: `group "1a2"`},
		{in: "a088:c203:003f:1a2g", bad: `group "1a2g"`},
		{in: "a088:c203:003f:+a2b", bad: `group "+a2b"`},
		{in: "56:34:12:00:03:c2:88:a0", bad: "have 8"}, // netlink's order, not sysfs's
	} {
		got, err := ParseGUID(c.in)
		check(t, c.in, got, c.want, err, c.bad)
		test.True(t, err != nil || got.String() == c.in, test.Sprintf("%q prints as %q", c.in, got))
	}
}

func TestGUIDText(t *testing.T) {
	var g GUID
	err := g.UnmarshalText([]byte("0011:7501:0167:4a2c"))
	test.True(t, err == nil && g == 0x0011750101674a2c, test.Sprintf("GUID %s, error %v", g, err))
	text, err := g.MarshalText()
	test.True(t, err == nil && string(text) == "0011:7501:0167:4a2c", test.Sprintf("text %q, error %v", text, err))
	test.Error(t, g.UnmarshalText([]byte("mlx5_0")))
}

func TestParseGIDPrefix(t *testing.T) {
	for _, c := range []struct {
		in   string
		want GUID
		bad  string
	}{
		{in: "fe80:0000:0000:0000:a088:c203:003f:1a2b", want: 0xfe80000000000000},
		{in: "fec0:0000:0000:0001:a088:c203:003f:1a2b", want: 0xfec0000000000001},
		{in: "0000:0000:0000:0000:0000:ffff:0a00:0001", want: 0},
		{in: "", bad: "8 groups"},
		{in: "fe80::1", bad: "8 groups"},
		{in: "fe80:0000:0000:0000:a088:c203:003f:1a2", bad: `group "1a2"`},
		{in: "fe80:0000:0000:0000:a088:c203:003f:1a2x", bad: `group "1a2x"`},
		{in: "fe8x:0000:0000:0000:a088:c203:003f:1a2b", bad: `group "fe8x"`},
		{in: "fe80:0000:0000:00000a088:c203:003f:1a2b", bad: "8 groups"},
	} {
		got, err := ParseGIDPrefix(c.in)
		check(t, c.in, got, c.want, err, c.bad)
	}
}

func TestParseRate(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int
		bad  string
	}{
		{in: "800 Gb/sec (4X XDR)", want: 800000},
		{in: "400 Gb/sec (4X NDR)", want: 400000},
		{in: "400 Gb/sec (8X HDR)", want: 400000},
		{in: "56 Gb/sec (4X FDR)", want: 56000},
		{in: "40 Gb/sec (4X FDR10)", want: 40000},
		{in: "25 Gb/sec (1X EDR)", want: 25000},
		{in: "2.5 Gb/sec (1X SDR)", want: 2500},
		{in: "10 Gb/sec (4X)", want: 10000}, // kernels before 2021 leave SDR out
		{in: "", bad: "want"},
		{in: "400", bad: "want"},
		{in: "400 Mb/sec (4X NDR)", bad: "want"},
		{in: "2.25 Gb/sec (1X SDR)", bad: "unknown fraction"},
		{in: "-1 Gb/sec (4X)", bad: "invalid syntax"},
		{in: "99999999 Gb/sec (4X)", bad: "out of range"},
	} {
		got, err := ParseRate(c.in)
		check(t, c.in, got, c.want, err, c.bad)
	}
}

func TestWord(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string
		bad  string
	}{
		{in: "4: ACTIVE", want: "ACTIVE"},
		{in: "5: ACTIVE_DEFER", want: "ACTIVE_DEFER"},
		{in: "0: <unknown>", want: "<unknown>"},
		{in: "7: Phy Test", want: "Phy Test"},
		{in: "6: usNIC UDP", want: "usNIC UDP"},
		{in: "4:ACTIVE", bad: "number: word"},
		{in: "ACTIVE", bad: "number: word"},
		{in: "4: ", bad: "number: word"},
		{in: "-4: ACTIVE", bad: "number: word"},
		{in: "65536: ACTIVE", bad: "number: word"},
	} {
		got, err := word(c.in)
		check(t, c.in, got, c.want, err, c.bad)
	}
}

func TestParseDev(t *testing.T) {
	for _, c := range []struct {
		in   string
		want [2]uint32
		bad  string
	}{
		{in: "231:192", want: [2]uint32{231, 192}},
		{in: "10:260", want: [2]uint32{10, 260}},
		{in: "4095:1048575", want: [2]uint32{4095, 1048575}},
		{in: "4096:0", bad: "major:minor"},
		{in: "0:1048576", bad: "major:minor"},
		{in: "231", bad: "major:minor"},
		{in: "231:192:0", bad: "major:minor"},
		{in: "", bad: "major:minor"},
	} {
		major, minor, err := ParseDev(c.in)
		check(t, c.in, [2]uint32{major, minor}, c.want, err, c.bad)
	}
}

// String returns the kernel's form ("%04x:%02x:%02x.%d", drivers/pci/probe.c).
func (a pciAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", uint64(a>>16), uint64(a>>8&0xff), uint64(a>>3&0x1f), uint64(a&7))
}

func TestParsePCIAddress(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{in: "0000:3b:00.0", want: "0000:3b:00.0"},
		{in: "0000:3B:1F.7", want: "0000:3b:1f.7"},
		{in: "10000:01:00.0", want: "10000:01:00.0"}, // behind Intel VMD
		{in: "00000101:00:00.0", want: "0101:00:00.0"},
		{in: "3b:00.0"},
		{in: "0000:3b:20.0"}, // devices end at 1f
		{in: "0000:3b:00.8"},
		{in: "0000:3b:00"},
		{in: "0000:3b:00.0/.."},
		{in: "mlx5_core.sf.4"},
	} {
		got, ok := parsePCIAddress(c.in)
		test.True(t, ok == (c.want != "") && (!ok || got.String() == c.want),
			test.Sprintf("%q: %s, %v; want %q", c.in, got, ok, c.want))
	}
}

func TestParseNetnsMode(t *testing.T) {
	for in, want := range map[string]NetnsMode{"Y": NetnsShared, "1": NetnsShared,
		"N": NetnsExclusive, "0": NetnsExclusive} {
		got, err := parseNetnsMode(in)
		check(t, in, got, want, err, "")
	}
	_, err := parseNetnsMode("maybe")
	check(t, "maybe", NetnsUnknown, NetnsUnknown, err, "want Y or N")
}

func TestNumber(t *testing.T) {
	for in, want := range map[string]int{"0": 0, "7": 7, "-1": -1} {
		got, err := number(in)
		test.True(t, err == nil && (got == nil) == (want < 0) && (got == nil || *got == want),
			test.Sprintf("%q: %v, error %v; want %d", in, got, err, want))
	}
	_, err := number("0x1")
	test.Error(t, err)
}

func TestIsRepresentor(t *testing.T) {
	for in, want := range map[string]bool{
		"pf0vf3": true, "pf1sf88": true, "c1pf0vf12": true, "c1pf0sf88": true,
		"pf0": true, "c1pf0": true, // the host's PF, seen from the Arm cores of a SmartNIC
		"p0": false, "p1s2": false, "": false, "pf": false, "pf0vf": false, "pf0xf1": false, "pf0vf3a": false,
		"0": false, "c1": false,
	} {
		test.Eq(t, want, representor.MatchString(in), test.Sprintf("representor.MatchString(%q)", in))
	}
}

func TestIsLegacyRepresentor(t *testing.T) {
	for in, want := range map[string]bool{
		"0": true, "126": true, "4095": true, "": false, "-1": false, "65534": false, "p0": false, "0x1": false,
		"pf0vf0": false, "1s2": false,
	} {
		test.Eq(t, want, legacyRepresentor.MatchString(in), test.Sprintf("legacyRepresentor.MatchString(%q)", in))
	}
}

func TestParsePCIID(t *testing.T) {
	for in, bad := range map[string]string{"0x15b3": "", "0x1D0F": "", "15b3": "want 0x", "0x15b": "want 0x",
		"0x15b3x": "want 0x", "": "want 0x"} {
		got, err := parsePCIID(in)
		check(t, in, got, strings.ToLower(strings.TrimPrefix(in, "0x")), err, bad)
	}
}

func TestEUI64(t *testing.T) {
	for mac, want := range map[string]string{
		"00:16:3e:2f:5a:11": "0216:3eff:fe2f:5a11", // Alibaba eRDMA
		"52:54:00:12:34:56": "5054:00ff:fe12:3456", // soft-RoCE on QEMU
		"b8:59:9f:aa:bb:cc": "ba59:9fff:feaa:bbcc",
		"00:00:00:00:00:00": "", // the loopback interface
		"":                  "",
		"0:16:3e:2f:5a:11":  "",
		// The 20 bytes of an IPoIB interface.
		"00:00:10:87:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:3f:1a:2b": "",
	} {
		guid, ok := eui64(mac)
		test.True(t, ok == (want != "") && (!ok || guid.String() == want),
			test.Sprintf("%q: %s, %v; want %q", mac, guid, ok, want))
	}
}

func check[T comparable](t *testing.T, in string, got, want T, err error, bad string) {
	t.Helper()
	switch {
	case bad == "" && (err != nil || got != want):
		t.Errorf("%q: %v, error %v; want %v", in, got, err, want)
	case bad != "" && (err == nil || !strings.Contains(err.Error(), bad)):
		t.Errorf("%q: %v, error %v; want one with %q", in, got, err, bad)
	}
}
