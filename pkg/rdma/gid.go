package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// GID is an address of a port, an entry of its GID table. A [Snapshot] does not include the table:
// it has up to 256 entries, and changes without an event of the kernel.
type GID struct {
	Index   int      // what ibv_modify_qp takes as sgid_index
	Address [16]byte // gids/INDEX; an IPv6 address, or ::ffff:a.b.c.d for an IPv4 address of RoCE
	Type    string   // gid_attrs/types/INDEX: "IB/RoCE v1" or "RoCE v2"
	// Netdev is the interface that has the address, "" without one. The interface may be in the network
	// namespace of a container, because the kernel prints only the name.
	Netdev string // gid_attrs/ndevs/INDEX
}

// ReadGIDs reads the used entries of a port's GID table in order. A port without a table has no
// entries.
func ReadGIDs(sys fs.FS, ibdev string, port int) (gids []GID, err error) {
	_, _, err = FindGID(sys, ibdev, port, func(gid GID) bool {
		gids = append(gids, gid)
		return false
	})
	return gids, err
}

// FindGID returns the first used entry of a port's GID table that matches. It reads no entry behind that one: a table
// has up to 1024. The error is about entries that could not be read, if none of the others matches.
func FindGID(sys fs.FS, ibdev string, port int, matches func(GID) bool) (found GID, ok bool, err error) {
	indexes, err := gidIndexes(sys, portDir(ibdev, port))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return GID{}, false, fmt.Errorf("list GIDs of port %d of %s: %w", port, ibdev, err)
	}
	var errs []error
	for _, index := range indexes {
		gid, err := ReadGID(sys, ibdev, port, index)
		switch {
		case errors.Is(err, ErrNoGID): // or the HCA was removed meanwhile
		case err != nil:
			errs = append(errs, err)
		case matches(gid):
			return gid, true, nil
		}
	}
	return GID{}, false, errors.Join(errs...)
}

// ErrNoGID means that an entry of a GID table is unused.
var ErrNoGID = errors.New("no GID")

// ReadGID reads one entry of a port's GID table. It returns ErrNoGID for an unused entry.
func ReadGID(sys fs.FS, ibdev string, port, index int) (GID, error) {
	dir, name := portDir(ibdev, port), strconv.Itoa(index)
	text := attribute(sys, dir+"/gids/"+name)
	if text == "" {
		return GID{}, ErrNoGID
	}
	address, err := ParseGID(text)
	if err != nil {
		return GID{}, fmt.Errorf("read %s/gids/%d: %w", dir, index, err)
	}
	if address == [16]byte{} {
		return GID{}, ErrNoGID
	}
	return GID{
		Index: index, Address: address,
		Type: attribute(sys, dir+"/gid_attrs/types/"+name), Netdev: attribute(sys, dir+"/gid_attrs/ndevs/"+name),
	}, nil
}

// RoCEv2 is the type of GIDs of RoCE v2 (drivers/infiniband/core/cache.c, gid_type_str).
const RoCEv2 = "RoCE v2"

// Assigned reports whether somebody assigned the address: it is none of fe80::/10, which the kernel makes itself
// (drivers/infiniband/core/roce_gid_mgmt.c, make_default_gid) and NCCL passes over (src/transport/net_ib, linkLocalGid).
// An IPv4 link-local address (::ffff:169.254.a.b) is assigned: NVIDIA's instructions for two DGX Sparks use these.
func (g GID) Assigned() bool {
	address := netip.AddrFrom16(g.Address)
	return !address.IsUnspecified() && (address.Is4In6() || !address.IsLinkLocalUnicast())
}

// HasAssignedGID reports whether a RoCE port has a GID of type RoCE v2 with an assigned address. It stops at the first
// such entry. It returns an error if the table is empty or cannot be read.
func HasAssignedGID(sys fs.FS, ibdev string, port int) (bool, error) {
	dir := portDir(ibdev, port)
	indexes, err := gidIndexes(sys, dir)
	if err == nil && len(indexes) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return false, fmt.Errorf("list GIDs of port %d of %s: %w", port, ibdev, err)
	}
	for _, i := range indexes {
		address, err := ParseGID(attribute(sys, fmt.Sprintf("%s/gids/%d", dir, i)))
		if err != nil || !(GID{Address: address}).Assigned() {
			continue // unused entries are zero, or reading them fails with EINVAL
		}
		if attribute(sys, fmt.Sprintf("%s/gid_attrs/types/%d", dir, i)) == RoCEv2 {
			return true, nil
		}
	}
	return false, nil
}

func portDir(ibdev string, port int) string {
	return path.Join(classInfiniband, ibdev, "ports", strconv.Itoa(port))
}

// gidIndexes lists the entries of a GID table in order.
func gidIndexes(sys fs.FS, port string) (indexes []int, err error) {
	entries, err := fs.ReadDir(sys, port+"/gids")
	for _, e := range entries {
		if i, err := strconv.Atoi(e.Name()); err == nil {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	return indexes, err
}

// attribute reads a file. It returns "" if the file is absent or the read fails with EINVAL.
func attribute(sys fs.FS, name string) string {
	b, err := fs.ReadFile(sys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ParseGID parses a GID as sysfs prints it: eight groups of four hexadecimal digits.
func ParseGID(s string) (gid [16]byte, err error) {
	b, err := parseGroups(s, 8)
	if err != nil {
		return gid, fmt.Errorf("parse GID %q: %w", s, err)
	}
	return [16]byte(b), nil
}

// HardwareAddress returns the Ethernet address that the kernel made a RoCE port's default GID
// from, as a modified EUI-64 of the interface's address
// (drivers/infiniband/core/roce_gid_mgmt.c). It returns "" for other GIDs.
func (g GID) HardwareAddress() string {
	b := g.Address
	if g.Netdev == "" || b[0] != 0xfe || b[1]&0xc0 != 0x80 || b[11] != 0xff || b[12] != 0xfe {
		return ""
	}
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[8]^2, b[9], b[10], b[13], b[14], b[15])
}
