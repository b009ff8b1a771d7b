package capture

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/address"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

// addresses maps the addresses of a host to others. A GUID and a GID are made of the MAC address, or of one near it, so
// one table maps the last three bytes of all of them: what belonged together still does. The vendor's part stays, equal
// addresses stay equal, and the order stays.
type addresses struct {
	tails    map[string]string // last three bytes of an address, as six digits
	prefixes map[string]string // first eight bytes of a global GID, as sixteen digits
	switches map[string]string // identifiers of switches
	ips      map[netip.Addr]string
	spelled  map[string]string // each address in each spelling without separators
	made     map[string]bool   // the addresses that stand for them
	lengths  []int             // of the spellings, the longest first
}

var (
	// idText is the file of a switch: 0100530000005e02.
	idText = regexp.MustCompile(`^[0-9a-f]{12,64}\n?$`)
	// nameText is an address in the name of an interface or HCA, as udev makes it: enx00005e005301.
	nameText = regexp.MustCompile(`[0-9a-f]{10,16}`)
)

// identifying reports whether a file holds an address. Other files, such as those of a PCI function, may only repeat one.
func identifying(name string) bool {
	switch path.Base(name) {
	case "address", "node_guid", "sys_image_guid", "parent_guid":
		return true
	}
	return path.Base(path.Dir(name)) == "gids"
}

func isSwitchID(e tree.Entry) bool {
	return path.Base(e.Path) == "phys_switch_id" && idText.MatchString(e.Data)
}

// newAddresses finds the addresses of a tree, and those in the names of its interfaces and HCAs.
func newAddresses(t *tree.Tree, names []string) *addresses {
	a := &addresses{tails: map[string]string{}, prefixes: map[string]string{}, switches: map[string]string{},
		spelled: map[string]string{}, ips: map[netip.Addr]string{}, made: map[string]bool{}}
	var found []string
	for _, e := range t.Entries() {
		switch {
		case e.Kind != tree.File:
		case isSwitchID(e):
			a.switches[strings.TrimSpace(e.Data)] = ""
		case identifying(e.Path):
			found = append(found, addressesOf(e.Data)...)
		}
	}
	var inNames []string
	for _, name := range names {
		inNames = append(inNames, nameText.FindAllString(name, -1)...)
		for _, ip := range address.IPv4.FindAllString(name, -1) {
			found = append(found, mappedPrefix+hexOfIPv4(ip))
		}
	}
	for _, digits := range slices.Concat(found, inNames) {
		a.tails[tail(digits)] = ""
		if prefix, global := globalPrefix(digits); global {
			a.prefixes[prefix] = ""
		}
	}
	a.assign()
	for _, digits := range found {
		a.spell(digits)
	}
	for _, digits := range inNames {
		if _, known := a.spelled[digits]; !known {
			a.spelled[digits] = a.mapped(digits)
		}
	}
	a.finish()
	return a
}

// addressesOf returns the hexadecimal digits of the addresses in a text.
func addressesOf(text string) []string {
	var out []string
	for _, re := range []*regexp.Regexp{address.MAC, address.GUID} {
		for _, found := range re.FindAllString(text, -1) {
			out = append(out, address.Digits(found))
		}
	}
	return out
}

func tail(digits string) string { return digits[len(digits)-6:] }

// mappedPrefix stands before an IPv4 address in a GID.
const mappedPrefix = "00000000000000000000ffff"

// hexOfIPv4 returns an IPv4 address as eight digits.
func hexOfIPv4(text string) string {
	var out strings.Builder
	for part := range strings.SplitSeq(text, ".") {
		n, _ := strconv.Atoi(part)
		fmt.Fprintf(&out, "%02x", n&0xff)
	}
	return out.String()
}

// gidOf returns the GID at the end of an address, "" for an address without one: IPoIB has 4 bytes more before it.
func gidOf(digits string) string {
	if len(digits) < 32 {
		return ""
	}
	return digits[len(digits)-32:]
}

// ipOf returns the IP address that a GID is.
func ipOf(gid string) netip.Addr {
	var ip [16]byte
	_, _ = hex.Decode(ip[:], []byte(gid))
	return netip.AddrFrom16(ip).Unmap()
}

// globalPrefix is the subnet of a GID that is neither link-local nor empty nor an IPv4 address.
func globalPrefix(digits string) (string, bool) {
	gid := gidOf(digits)
	if gid == "" || strings.HasPrefix(gid, "fe80000000000000") || strings.Trim(gid[:16], "0") == "" {
		return "", false
	}
	return gid[:16], true
}

// assign numbers tails, prefixes and switches in their order. A new value is none of the old ones, so that a search for
// old values finds none.
func (a *addresses) assign() {
	number(a.tails, func(i int) string { return fmt.Sprintf("%06x", 0x100000+i) })
	number(a.prefixes, func(i int) string { return fmt.Sprintf("20010db8%08x", i) }) // RFC 3849
	for _, id := range slices.Sorted(maps.Keys(a.switches)) {
		a.switches[id] = fmt.Sprintf("%0*x", len(id), 0x5e0000000000+len(a.spelled))
		a.spelled[id] = a.switches[id]
	}
}

// number gives each key of a table the next value that is no key.
func number(table map[string]string, value func(int) string) {
	i := 0
	for _, key := range slices.SortedFunc(maps.Keys(table), cmp.Compare[string]) {
		for {
			next := value(i)
			i++
			if _, taken := table[next]; !taken {
				table[key] = next
				break
			}
		}
	}
}

// mapped returns the digits that stand for an address. None and all (00:00:00:00:00:00, ff:ff:ff:ff:ff:ff) identify
// nothing.
func (a *addresses) mapped(digits string) string {
	head, end := digits[:len(digits)-6], digits[max(0, len(digits)-16):]
	if strings.Trim(end, "0") == "" || strings.Trim(end, "f") == "" {
		end = tail(digits)
	} else {
		end = a.tails[tail(digits)]
	}
	if prefix, global := globalPrefix(digits); global {
		head = digits[:len(digits)-32] + a.prefixes[prefix] + head[len(head)-10:]
	}
	if strings.HasPrefix(gidOf(digits), mappedPrefix) {
		head = digits[:len(digits)-8] + "0a" // 10.0.0.0/8
	}
	return head + end
}

// spell adds the spellings of an address: whole, and those that others make of it.
func (a *addresses) spell(digits string) {
	if globe, global := globalPrefix(digits); global {
		a.add(globe, a.prefixes[globe])
	}
	if gid := gidOf(digits); gid != "" {
		if from, to := ipOf(gid), ipOf(a.mapped(gid)); from != to && !from.IsUnspecified() {
			a.ips[from] = to.String()
		}
		digits = gid[16:]
		if strings.HasPrefix(gid, mappedPrefix) {
			a.add(digits, a.mapped(gid)[16:])
			return
		}
	}
	a.add(digits, a.mapped(digits))
	mac := digits[:6] + tail(digits)
	for _, mac := range []string{mac, flipped(mac)} {
		a.add(mac, a.mapped(mac))
		eui := mac[:6] + "fffe" + mac[6:] // RFC 4291, appendix A
		a.add(eui, a.mapped(eui))
	}
	if len(digits) == 16 {
		a.add(reversed(digits), reversed(a.mapped(digits))) // as mlx5 writes the identifier of its switch
		// As a number, as udev's rdma_rename writes a GUID.
		if short := strings.TrimLeft(digits, "0"); len(short) >= 10 {
			a.add(short, strings.TrimLeft(a.mapped(digits), "0"))
		}
	}
}

// add adds a spelling. One with few digits could be anything else: a counter, or a number of a device.
func (a *addresses) add(digits, mapped string) {
	if len(strings.TrimLeft(digits, "0")) < 7 || len(strings.TrimRight(digits, "0")) < 7 ||
		strings.Trim(digits, "f") == "" {
		return
	}
	if _, known := a.spelled[digits]; !known {
		a.spelled[digits] = mapped
	}
}

func (a *addresses) finish() {
	seen := map[int]bool{}
	for digits, mapped := range a.spelled {
		seen[len(digits)], a.made[mapped] = true, true
	}
	a.lengths = slices.Sorted(maps.Keys(seen))
	slices.Reverse(a.lengths)
}

// flipped returns a MAC address with the other value of the universal/local bit.
func flipped(mac string) string {
	first, _ := strconv.ParseUint(mac[:2], 16, 8)
	return fmt.Sprintf("%02x", first^2) + mac[2:]
}

// reversed returns the bytes of an address in reverse order.
func reversed(digits string) string {
	var out strings.Builder
	for i := len(digits) - 2; i >= 0; i -= 2 {
		out.WriteString(digits[i : i+2])
	}
	return out.String()
}
