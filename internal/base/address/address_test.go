package address_test

import (
	"net/netip"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/address"
)

// TestEachIP: each spelling of an address is found whole, before a port and beside other text.
func TestEachIP(t *testing.T) {
	for text, want := range map[string]string{
		"dial 192.0.2.7:443: refused":     "dial <192.0.2.7>:443: refused",
		"at ::ffff:192.0.2.7.":            "at <192.0.2.7>.",
		"[::ffff:192.0.2.7]:443":          "[<192.0.2.7>]:443",
		"gid fe80::a288:c2ff:fe25:1000":   "gid <fe80::a288:c2ff:fe25:1000>",
		"addr:192.0.2.7 d:192.0.2.8":      "addr:<192.0.2.7> d:<192.0.2.8>",
		"64:ff9b::192.0.2.33 of NAT64":    "<64:ff9b::c000:221> of NAT64",
		"2001:db8::1.2 is with a tail":    "<2001:db8::1>.2 is with a tail",
		"12:30:45.123 is a time, 1.2.3":   "12:30:45.123 is a time, 1.2.3",
		"mlx5_0:1, 0000:3b:00.0, driver:": "mlx5_0:1, 0000:3b:00.0, driver:",
	} {
		got := address.EachIP(text, func(ip netip.Addr) string { return "<" + ip.String() + ">" })
		test.Eq(t, want, got, test.Sprintf("%q", text))
		test.Eq(t, text, address.EachIP(text, func(netip.Addr) string { return "" }), test.Sprint("changes"))
	}
}
