package capture

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/address"
)

var (
	madeName = regexp.MustCompile(`\b([a-z]+x)[0-9a-f]{10,16}\b`) // an interface or HCA that is not in the tree
	homeText = regexp.MustCompile(`((?:/[[:alnum:]_.-]+)*/(?:home|Users)/)[^/\s"':,;]+`)
)

// Text returns a text without what identifies the host.
func (s *Scrubber) Text(text string) string {
	for _, value := range s.hidden {
		text = strings.ReplaceAll(text, value, "(hidden)")
	}
	text = s.digits(s.renames(text))
	text = s.unknown(text)
	text = homeText.ReplaceAllString(text, "${1}user")
	return s.named(text)
}

// unknown replaces addresses that the tree does not have, and all IP addresses.
func (s *Scrubber) unknown(text string) string {
	const hidden = "(address)"
	for _, re := range []*regexp.Regexp{address.MAC, address.GUID, address.BareGUID} {
		text = re.ReplaceAllStringFunc(text, func(found string) string {
			if s.isMade(address.Digits(found)) {
				return found
			}
			return hidden
		})
	}
	text = madeName.ReplaceAllStringFunc(text, func(found string) string {
		prefix := found[:strings.IndexByte(found, 'x')+1]
		if s.isMade(found[len(prefix):]) {
			return found
		}
		return prefix + hidden
	})
	return address.EachIP(text, func(ip netip.Addr) string {
		if ip.IsLoopback() || ip.IsUnspecified() {
			return ""
		}
		return hidden
	})
}

// isMade reports whether an address is one that the scrubber has made.
func (s *Scrubber) isMade(digits string) bool {
	if gid := gidOf(digits); gid != "" {
		digits = gid[16:]
	}
	return s.made[digits] || strings.Trim(digits, "0") == "" || strings.Trim(digits, "f") == ""
}

// Leak searches a part of a report for what a scrubber must have replaced, and returns the kind of what it finds, "" for
// nothing. It searches in its own way, so that a mistake in how it replaces is found.
func (s *Scrubber) Leak(text string) string {
	lower := asciiLower(text)
	for _, w := range s.words {
		if w.find(lower) >= 0 {
			return w.kind
		}
	}
	found := false
	address.EachIP(text, func(ip netip.Addr) string {
		found = found || s.ips[ip] != ""
		return ""
	})
	if found || s.repeats(separators.Replace(lower)) {
		return kindAddress
	}
	return ""
}

// repeats reports whether a text without separators has an address of the host.
func (s *Scrubber) repeats(text string) bool {
	for _, digits := range strings.FieldsFunc(text, func(r rune) bool { return r > 'f' || !isHex(byte(r)) }) {
		for _, n := range s.lengths {
			for i := 0; i+n <= len(digits); i++ {
				if to, known := s.spelled[digits[i:i+n]]; known && to != digits[i:i+n] {
					return true
				}
			}
		}
	}
	return false
}

var separators = strings.NewReplacer(":", "", "-", "", ".", "")

// LeakOfText searches a text about the host, which may have repeated what others wrote.
func (s *Scrubber) LeakOfText(text string) string {
	for _, value := range s.hidden {
		if strings.Contains(text, value) {
			return kindHidden
		}
	}
	return s.Leak(text)
}
