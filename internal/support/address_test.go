package support

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// TestText: each spelling of an address is found whole, before a port and beside other text; what is none stays.
func TestText(t *testing.T) {
	s := New([]byte("a test"))
	s.Learn("a088:c203:0025:1000 00:00:5e:00:53:01 6045bd0a1b2c")
	mac, guid := s.address("a0:88:c2:25:10:00"), s.address("a088:c203:0025:1000")
	test.Eq(t, "a0:88:c2:", mac[:9])
	test.Eq(t, "a088:c203:00", guid[:12])
	v4, v6, odd := s.address("192.0.2.7"), s.address("fe80::a288:c2ff:fe25:1000"), s.address("00:00:5e:00:53:01")
	for text, want := range map[string]string{
		"dial 192.0.2.7:443: refused":                           "dial " + v4 + ":443: refused",
		"at ::ffff:192.0.2.7.":                                  "at ::ffff:" + v4 + ".",
		"[::ffff:192.0.2.7]:443":                                "[::ffff:" + v4 + "]:443",
		"gid fe80::a288:c2ff:fe25:1000":                         "gid " + v6,
		"addr:192.0.2.7 d:192.0.2.7":                            "addr:" + v4 + " d:" + v4,
		"64:ff9b::192.0.2.33 of NAT64":                          s.address("64:ff9b::c000:221") + " of NAT64",
		"2001:db8::1.2 is with a tail":                          s.address("2001:db8::1") + ".2 is with a tail",
		"device:a0:88:c2:25:10:00, name:" + "a0:88:c2:25:10:00": "device:" + mac + ", name:" + mac,
		"port 1:a0:88:c2:25:10:00":                              "port 1:" + mac,
		"1:a088:c203:0025:1000 xa088:c203:0025:1000":            "1:" + guid + " x" + guid,
		"a088:c203:25:1000 0:0:5e:0:53:1":                       guid + " " + odd,
		"6045bd0a-1b2c-6045-bd0a-1b2c6045bd0a": overwrite("6045bd0a-1b2c-6045-bd0a-1b2c6045bd0a",
			strings.Repeat(s.digits("6045bd0a1b2c"), 3)),
		"f8615163-0000-1000-2000-6045bd0a1b2c":                  "f8615163-0000-1000-2000-" + s.digits("6045bd0a1b2c"),
		"x -----BEGIN A KEY-----\nMIIEpA":                       "x (hidden)", // the end of a log
		"https://a@b:c@d.example:1/x":                           "https://(host):1/x",
		"no address: " + strings.Repeat("1:", 1<<16):            "no address: (hidden):",
		strings.Repeat("a0", 32) + " is a digest":               strings.Repeat("a0", 32) + " is a digest",
		"switch 0010250003c288a0":                               "switch " + reversed(s.digits("a088c20300251000")),
		"0b7c1bd2-7a3c-4f0e-9d43-0c2d54d7a111":                  "0b7c1bd2-7a3c-4f0e-9d43-0c2d54d7a111",
		"12:30:45.123 is a time, 1.2.3":                         "12:30:45.123 is a time, 1.2.3",
		"mlx5_0:1, 0000:3b:00.0, driver:, 127.0.0.1":            "mlx5_0:1, 0000:3b:00.0, driver:, 127.0.0.1",
		"pci:v000015B3d00001021sv000015B3sd00000023bc02sc00i00": "pci:v000015B3d00001021sv000015B3sd00000023bc02sc00i00",
		"00:00:00:00:00:00 1234567890123456":                    "00:00:00:00:00:00 1234567890123456",
		"vmbus:00000000----xxxxxxxxxxxxxxxxxx":                  "vmbus:00000000----xxxxxxxxxxxxxxxxxx",
		"vmbus:00000000,a0:88:c2:25:10:00":                      "vmbus:00000000," + mac,
	} {
		test.Eq(t, want, s.Text(text), test.Sprintf("%q", text))
	}
}

// TestTail: two addresses never become one.
func TestTail(t *testing.T) {
	s, seen := New(nil), map[string]bool{}
	for i := range 4096 {
		seen[s.digits(fmt.Sprintf("00005e%06x", i*4093))] = true
	}
	test.Eq(t, 4096, len(seen))
}
