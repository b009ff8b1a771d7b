package rdma

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// GUID is a 64-bit identifier in the order in which sysfs prints it. Zero means
// that the kernel has none: a VF without a GUID, or EFA's system image GUID.
type GUID uint64

// ParseGUID parses the kernel's form of a GUID, four groups of four hexadecimal
// digits ("a088:c203:003f:1a2b"; drivers/infiniband/core/sysfs.c).
func ParseGUID(s string) (GUID, error) {
	b, err := parseGroups(s, 4)
	if err != nil {
		return 0, fmt.Errorf("parse GUID %q: %w", s, err)
	}
	return GUID(binary.BigEndian.Uint64(b)), nil
}

// String returns the kernel's form.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// MarshalText implements encoding.TextMarshaler.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *GUID) UnmarshalText(b []byte) (err error) {
	*g, err = ParseGUID(string(b))
	return err
}

// parseGroups reads n groups of four hexadecimal digits joined by colons.
func parseGroups(s string, n int) ([]byte, error) {
	groups := strings.Split(s, ":")
	if len(groups) != n {
		return nil, fmt.Errorf("want %d groups of four hexadecimal digits, have %d", n, len(groups))
	}
	var b []byte
	for _, g := range groups {
		x, err := strconv.ParseUint(g, 16, 16)
		if err != nil || len(g) != 4 {
			return nil, fmt.Errorf("group %q is not four hexadecimal digits", g)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(x))
	}
	return b, nil
}

// ParseGIDPrefix returns the upper 64 bits of a GID, which on InfiniBand are the
// subnet prefix (sysfs prints a GID as eight groups of four digits).
func ParseGIDPrefix(s string) (GUID, error) {
	gid, err := ParseGID(s)
	return GUID(binary.BigEndian.Uint64(gid[:8])), err
}

// PortState is the logical state of a port (enum ib_port_state).
type PortState string

// The states the kernel prints.
const (
	PortDown        PortState = "DOWN"
	PortInit        PortState = "INIT"
	PortArmed       PortState = "ARMED"
	PortActive      PortState = "ACTIVE"
	PortActiveDefer PortState = "ACTIVE_DEFER"
)

// LinkLayer is the link layer of a port (drivers/infiniband/core/sysfs.c).
type LinkLayer string

// The link layers of InfiniBand and RoCE; the kernel prints Unknown for EFA.
const (
	LinkInfiniBand LinkLayer = "InfiniBand"
	LinkEthernet   LinkLayer = "Ethernet"
)

// NodeType is the kernel's type of an HCA (enum rdma_node_type).
type NodeType string

// The node types that the package distinguishes; the kernel has more.
const (
	NodeTypeCA   NodeType = "CA"
	NodeTypeRNIC NodeType = "RNIC" // iWARP
)

// word parses the form in which sysfs prints an enumeration: the word of "4: ACTIVE".
func word(s string) (string, error) {
	num, word, ok := strings.Cut(s, ": ")
	if _, err := strconv.ParseUint(num, 10, 16); err != nil || !ok || word == "" {
		return "", fmt.Errorf("parse enumeration %q: want \"number: word\"", s)
	}
	return word, nil
}

// ParseRate parses a port's rate, "400 Gb/sec (4X NDR)" or "2.5 Gb/sec (1X SDR)",
// and returns it in units of 10^6 bit/s.
func ParseRate(s string) (int, error) {
	num, rest, ok := strings.Cut(s, " ")
	if !ok || !strings.HasPrefix(rest, "Gb/sec") {
		return 0, fmt.Errorf("parse rate %q: want \"<number> Gb/sec (...)\"", s)
	}
	whole, frac, dotted := strings.Cut(num, ".")
	n, err := strconv.ParseUint(whole, 10, 20)
	if err != nil {
		return 0, fmt.Errorf("parse rate %q: %w", s, err)
	}
	mbps := int(n) * 1000
	if dotted {
		// The kernel prints halves only: "%d%s Gb/sec", ".5" or nothing.
		if frac != "5" {
			return 0, fmt.Errorf("parse rate %q: unknown fraction", s)
		}
		mbps += 500
	}
	return mbps, nil
}

// ParseDev parses the content of a dev file, "231:192" (major:minor).
func ParseDev(s string) (major, minor uint32, err error) {
	a, b, ok := strings.Cut(s, ":")
	// A dev_t has 12 bits of major and 20 bits of minor (include/linux/kdev_t.h).
	maj, err1 := strconv.ParseUint(a, 10, 12)
	mnr, err2 := strconv.ParseUint(b, 10, 20)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("parse device number %q: want \"major:minor\"", s)
	}
	return uint32(maj), uint32(mnr), nil
}

// parseNetnsMode parses the boolean ib_core parameter netns_mode: Y is shared.
func parseNetnsMode(s string) (NetnsMode, error) {
	switch s {
	case "Y", "1":
		return NetnsShared, nil
	case "N", "0":
		return NetnsExclusive, nil
	}
	return NetnsUnknown, fmt.Errorf("parse netns_mode %q: want Y or N", s)
}

// representor matches the phys_port_name of a function's representor: "pf0vf3", "c1pf0sf88",
// or, on a SmartNIC, "pf0" for the host's PF. A physical port is "p0" (net/devlink/port.c).
var representor = regexp.MustCompile(`^(c[0-9]+)?pf[0-9]+([vs]f[0-9]+)?$`)

// legacyRepresentor matches a phys_port_name that may be that of a VF's representor up to Linux 5.1: the number
// of the VF alone. Other drivers number ports so too, without a switch. The uplink had no name, or the number
// of its vport less one, which no VF has.
var legacyRepresentor = regexp.MustCompile(`^[0-9]{1,4}$`)
