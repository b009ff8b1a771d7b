// Package address finds addresses in texts: of network hardware, of InfiniBand and of the Internet Protocol (a leaf:
// standard library only). cdi-gen report and kubectl rdma bundle hide what it finds.
package address

import (
	"net/netip"
	"regexp"
	"strings"
)

// Addresses as the kernel and people write them.
var (
	// MAC has bytes: 00:00:5e:00:53:01, and the 20 of IPoIB.
	MAC = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{2}[:-]){5,19}[0-9a-f]{2}\b`)
	// GUID has groups of two bytes: 0200:5eff:fe00:5301, and the eight of a GID.
	GUID = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{4}:){3,7}[0-9a-f]{4}\b`)
	// BareGUID is a GUID without separators.
	BareGUID = regexp.MustCompile(`(?i)\b[0-9a-f]{16}\b`)
	IPv4     = regexp.MustCompile(`(?:[0-9]{1,3}\.){3}[0-9]{1,3}`)
	// ip may be an IPv6 address, which may end as an IPv4 address (::ffff:192.0.2.7), or an IPv4 address.
	ip = regexp.MustCompile(`[0-9a-fA-F:]*:[0-9a-fA-F:]*(?:(?:\.[0-9]{1,3}){3})?|(?:[0-9]{1,3}\.){3}[0-9]{1,3}`)
)

// Digits returns the hexadecimal digits of a MAC, GUID or GID.
func Digits(text string) string {
	return strings.ToLower(strings.NewReplacer(":", "", "-", "", "\n", "").Replace(text))
}

// EachIP replaces IP addresses in a text, also those before a port. An empty replacement leaves one as it is.
func EachIP(text string, replace func(netip.Addr) string) string {
	replaced := func(found, core string) (string, bool) {
		ip, err := netip.ParseAddr(core)
		if err != nil {
			return found, false
		}
		if by := replace(ip.Unmap()); by != "" {
			return strings.Replace(found, core, by, 1), true
		}
		return found, true
	}
	return ip.ReplaceAllStringFunc(text, func(whole string) string {
		front, _, _ := strings.Cut(whole, ".")
		for _, found := range []string{whole, front} { // the numbers after a dot may be of something else
			core := strings.Trim(found, ":")
			if strings.HasPrefix(found, "::") {
				core = "::" + core
			}
			if out, isIP := replaced(found, core); isIP {
				return out + whole[len(found):]
			}
		}
		return IPv4.ReplaceAllStringFunc(whole, func(found string) string {
			out, _ := replaced(found, found)
			return out
		})
	})
}
