package support

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// addressText is what looks like an address: of network hardware, of InfiniBand or of the Internet Protocol.
var addressText = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\b(?:pci:v|vmbus:)[0-9a-f]{8}[0-9a-z]*`,                              // a modalias, which is none
	`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`,                     // a UUID, which may have one
	`[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,}`,                                  // MAC: 00:00:5e:00:53:01; IPoIB: 20 bytes
	`(?:\b[0-9a-f]{1,4}:|::)[0-9a-f:]*[0-9a-f](?:(?:\.[0-9]{1,3}){3}\b)?`, // IPv6, GID, GUID; 0:0:5e:0:53:1
	`[0-9a-f]{4}(?::[0-9a-f]{4}){3,}`,                                     // GUID and GID after a letter
	`[0-9a-f]{4}(?:\.[0-9a-f]{4}){2,3}`,                                   // MAC and GUID of switches
	`(?:[0-9]{1,3}\.){3}[0-9]{1,3}`,                                       // IPv4
	`[a-z]x[0-9a-f]{10,}|[0-9a-f]{12,}`,                                   // enx00005e005301
}, "|"))

var separators = strings.NewReplacer(":", "", "-", "", ".", "")

// longest is the length of the longest address: that of IPoIB.
const longest = len("00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00")

// digitsOf returns the hexadecimal digits of a MAC, GUID or GID, without the letters of an interface's name before it.
func digitsOf(found string) string {
	lower := strings.ToLower(found)
	return separators.Replace(lower[strings.LastIndexByte(lower, 'x')+1:])
}

// address returns what stands for an address. Its vendor's part stays, and its last bytes are replaced. So the MAC
// address, GUID and GID of a device still belong together.
func (s *Scrubber) address(found string) string {
	if ip, err := netip.ParseAddr(found); err == nil {
		return s.ip(found, ip)
	}
	digits := digitsOf(found)
	groups := strings.Split(found, ":")
	to, known := s.known[digits]
	switch {
	case len(found) == 36 && strings.Count(found, "-") == 4:
		return s.uuid(found, digits)
	case strings.Contains(digits, "v"): // a modalias
		return found
	case len(found) > longest && len(groups) > 1: // no address, or many
		return Hidden
	case known && len(to) == len(digits):
		return overwrite(found, to)
	case !strings.Contains(found, "::") && isAddress(groups, digits) && !isNumber(found):
		return overwrite(found, s.digits(digits))
	}
	if to, known := s.known[digitsOf(padded(groups))]; known && to != "" {
		return overwrite(padded(groups), to)
	}
	first, rest, more := strings.Cut(found, ":")
	if !more {
		return found
	}
	return first + ":" + addressText.ReplaceAllStringFunc(rest, s.address)
}

// isAddress reports whether a text has as many digits as an address has, in groups of one width.
func isAddress(groups []string, digits string) bool {
	for _, group := range groups {
		if len(group) != len(groups[0]) {
			return false
		}
	}
	shortest := 12
	if len(groups) == 1 {
		shortest = 10 // without leading zeros, in the name of an interface
	}
	return len(digits) >= shortest && len(digits) <= 16 || len(digits) == 32 || len(groups) > 6
}

// isNumber reports whether a text may be a number or a version.
func isNumber(text string) bool { return strings.Trim(text, "0123456789.") == "" }

// padded returns a MAC, GUID or GID whose groups lack leading zeros with all of them, "" for another text.
func padded(groups []string) string {
	width := map[int]int{4: 4, 6: 2, 8: 4}[len(groups)]
	var out []string
	for _, group := range groups {
		out = append(out, strings.Repeat("0", max(0, width-len(group)))+group)
	}
	return strings.ToLower(strings.Join(out, ":"))
}

// uuid returns the UUID of a VMBus device without the MAC address that Hyper-V makes it of: the address again and
// again, or once at its end. Another UUID stays.
func (s *Scrubber) uuid(found, digits string) string {
	if mac := digits[:12]; mac == digits[12:24] && strings.HasPrefix(mac, digits[24:]) {
		return overwrite(found, strings.Repeat(s.digits(mac), 3)[:32])
	}
	if to, known := s.known[digits[20:]]; known {
		return overwrite(found, digits[:20]+to)
	}
	return found
}

// ip returns what stands for an IP address. One of no host stays.
func (s *Scrubber) ip(found string, ip netip.Addr) string {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return found
	}
	whole := ip.As16()
	_, _ = hex.Decode(whole[:], []byte(s.digits(hex.EncodeToString(whole[:]))))
	out := netip.AddrFrom16(whole)
	switch {
	case ip.Is4():
		return out.Unmap().String()
	case len(found) == len("0000:0000:0000:0000:0000:0000:0000:0000"):
		return out.StringExpanded()
	}
	return out.String()
}

const (
	linkLocal = "fe80000000000000"
	mappedIP  = "00000000000000000000ffff" // before an IPv4 address in a GID
)

// digits returns the digits that stand for those of an address. None and all of them are of nobody.
func (s *Scrubber) digits(of string) string {
	head, id, tail := of[:len(of)-6], of[max(0, len(of)-16):], of[len(of)-6:]
	nobody := strings.Trim(id, "0") == "" || strings.Trim(id, "f") == ""
	if !nobody {
		tail = s.tail(tail)
	}
	if len(of) < 32 {
		return head + tail
	}
	start := len(of) - 32 // IPoIB has 4 bytes before the GID
	prefix, middle := of[start:start+16], head[len(head)-10:]
	switch {
	case strings.HasPrefix(of[start:], mappedIP):
		return of[:len(of)-8] + "0a" + tail // 10.0.0.0/8
	case prefix == linkLocal || strings.Trim(prefix, "0") == "":
		return head + tail
	case !nobody && id[6:10] != "fffe" && s.known[id] == "": // of no hardware (RFC 4291, appendix A)
		middle = s.hash(id)[:10]
	}
	return of[:start] + "20010db8" + s.hash(prefix)[:8] + middle + tail // RFC 3849
}

// tail replaces the last three bytes of an address, two never by the same ones: it is a Feistel network.
func (s *Scrubber) tail(digits string) string {
	n, _ := strconv.ParseUint(digits, 16, 32)
	for round := range 4 {
		left, right := n>>12, n&0xfff
		mask, _ := strconv.ParseUint(s.hash(fmt.Sprint(round, right))[:3], 16, 32)
		n = right<<12 | left ^ mask
	}
	return fmt.Sprintf("%06x", n)
}

// hash returns 64 digits that nobody can compute who lacks the key of the archive.
func (s *Scrubber) hash(text string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// Opaque replaces an identifier as a whole, the same one by the same digits.
func (s *Scrubber) Opaque(id string) string {
	core := strings.TrimSpace(id)
	return strings.Replace(id, core, s.hash(core)[:min(len(core), 64)], 1)
}

// overwrite writes digits over those of a text. Its punctuation and its case stay.
func overwrite(text, digits string) string {
	if strings.ToUpper(text) == text && strings.ToLower(text) != text {
		digits = strings.ToUpper(digits)
	}
	out, from := []byte(text), strings.LastIndexAny(text, "xX")+1
	for i := from; i < len(out); i++ {
		if isHex(rune(out[i])) {
			out[i], digits = digits[0], digits[1:]
		}
	}
	return string(out)
}

func isHex(c rune) bool { return strings.ContainsRune("0123456789abcdefABCDEF", c) }

// reversed returns the bytes of an address in reverse order.
func reversed(digits string) (out string) {
	for i := 0; i+2 <= len(digits); i += 2 {
		out = digits[i:i+2] + out
	}
	return out
}

// Learn notes the addresses in a text as addresses of the host, each in the spellings that programs make of it. Leak
// searches for them.
func (s *Scrubber) Learn(text string) {
	for _, found := range addressText.FindAllString(text, -1) {
		if ip, err := netip.ParseAddr(found); err == nil && s.ip(found, ip) != found {
			if ip = ip.Unmap(); ip.Is4() {
				s.know(ip.String(), s.ip(found, ip))
			} else {
				s.know(separators.Replace(ip.String()), "")
			}
			whole := ip.As16()
			found = hex.EncodeToString(whole[:])
		}
		digits := digitsOf(found)
		if len(digits) < 10 {
			continue
		}
		if len(digits) >= 32 {
			gid := digits[len(digits)-32:]
			if !strings.HasPrefix(gid, linkLocal) {
				s.know(gid[:16], s.digits(gid)[:16])
			}
			digits = gid[16:]
			if strings.HasPrefix(gid, mappedIP) {
				s.know(digits, s.digits(gid)[16:])
				continue
			}
		}
		to, vendor, tail := s.digits(digits), digits[:6], digits[len(digits)-6:]
		s.know(digits, to)
		for _, vendor := range []string{vendor, flipped(vendor)} {
			for _, spelled := range []string{vendor + tail, vendor + "fffe" + tail} {
				s.know(spelled, s.digits(spelled))
			}
		}
		if len(digits) == 16 {
			s.know(reversed(digits), reversed(to))                           // as mlx5 writes the identifier of its switch
			s.know(strings.TrimLeft(digits, "0"), strings.TrimLeft(to, "0")) // as udev's rdma_rename writes a GUID
		}
	}
}

// know notes an address that must not be left, and what stands for it. One of few digits may be anything else: a
// counter, or a device's number.
func (s *Scrubber) know(spelled, to string) {
	if len(strings.Trim(spelled, "0")) >= 7 && strings.Trim(spelled, "f") != "" {
		s.known[spelled], s.made[to] = to, true
		s.spans[len(spelled)] = true
	}
}

// flipped returns the vendor's part of a MAC address with the other value of the universal/local bit.
func flipped(vendor string) string {
	first, _ := strconv.ParseUint(vendor[:2], 16, 8)
	return fmt.Sprintf("%02x", first^2) + vendor[2:]
}

// shows reports whether a text has an address of the host, which is not one that stands for another.
func (s *Scrubber) shows(text string) bool {
	for _, found := range addressText.FindAllString(text, -1) {
		if ip, err := netip.ParseAddr(found); err == nil && s.unmade(ip.Unmap().String()) { // IPv4
			return true
		}
	}
	for _, digits := range strings.FieldsFunc(separators.Replace(text), func(c rune) bool { return !isHex(c) }) {
		for length := range s.spans {
			for i := 0; i+length <= len(digits); i++ {
				if s.unmade(digits[i : i+length]) {
					return true
				}
			}
		}
	}
	return false
}

func (s *Scrubber) unmade(spelled string) bool {
	_, known := s.known[spelled]
	return known && !s.made[spelled]
}
