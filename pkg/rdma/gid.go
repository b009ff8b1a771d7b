package rdma

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// GID is an address of a port, an entry of its GID table. The table is no part of a
// [Snapshot]: it has up to 256 entries, and changes without an event of the kernel.
type GID struct {
	Index   int      // what ibv_modify_qp takes as sgid_index
	Address [16]byte // gids/INDEX; an IPv6 address, ::ffff:a.b.c.d where RoCE made it from one of IPv4
	Type    string   // gid_attrs/types/INDEX: "IB/RoCE v1" or "RoCE v2"
	// Netdev is the interface whose address it is made from, "" without one. It may be in
	// the network namespace of a container: the kernel prints the name alone.
	Netdev string // gid_attrs/ndevs/INDEX
}

// ReadGIDs reads the entries of a port's GID table that are in use, in their order. A
// port without a table has none.
func ReadGIDs(sys fs.FS, ibdev string, port int) ([]GID, error) {
	dir := path.Join(classInfiniband, ibdev, "ports", strconv.Itoa(port))
	indexes, err := gidIndexes(sys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list GIDs of port %d of %s: %w", port, ibdev, err)
	}
	var gids []GID
	var errs []error
	for _, index := range indexes {
		name := strconv.Itoa(index)
		text := attribute(sys, dir+"/gids/"+name)
		if text == "" {
			continue // the HCA has just gone
		}
		address, err := ParseGID(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s/gids/%d: %w", dir, index, err))
			continue
		}
		if address == [16]byte{} {
			continue
		}
		gids = append(gids, GID{
			Index: index, Address: address,
			Type: attribute(sys, dir+"/gid_attrs/types/"+name), Netdev: attribute(sys, dir+"/gid_attrs/ndevs/"+name),
		})
	}
	return gids, errors.Join(errs...)
}

// HasRoutableGID reports whether a RoCE port has a GID of type RoCE v2 that is not link-local: an address that leads
// beyond the link. It reads no entry after the first such one. The error is that of a port whose table cannot be read
// or is empty.
func HasRoutableGID(sys fs.FS, ibdev string, port int) (bool, error) {
	dir := path.Join(classInfiniband, ibdev, "ports", strconv.Itoa(port))
	indexes, err := gidIndexes(sys, dir)
	if err == nil && len(indexes) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return false, fmt.Errorf("list GIDs of port %d of %s: %w", port, ibdev, err)
	}
	for _, i := range indexes {
		gid, err := ParseGID(attribute(sys, fmt.Sprintf("%s/gids/%d", dir, i)))
		if address := netip.AddrFrom16(gid); err != nil || address.IsUnspecified() || address.IsLinkLocalUnicast() {
			continue // entries that are not in use are zero, or answer EINVAL
		}
		if attribute(sys, fmt.Sprintf("%s/gid_attrs/types/%d", dir, i)) == "RoCE v2" {
			return true, nil
		}
	}
	return false, nil
}

// gidIndexes lists the entries of a GID table in their order.
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

// attribute reads a file whose absence, and whose EINVAL, mean that there is nothing.
func attribute(sys fs.FS, name string) string {
	b, err := fs.ReadFile(sys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ParseGID parses a GID as sysfs prints it: eight groups of four hexadecimal digits.
func ParseGID(s string) (gid [16]byte, err error) {
	if _, err := parseGroups(s, 8); err != nil {
		return gid, fmt.Errorf("parse GID %q: %w", s, err)
	}
	_, err = hex.Decode(gid[:], []byte(strings.ReplaceAll(s, ":", "")))
	return gid, err
}

// HardwareAddress returns the Ethernet address that a GID of RoCE was made from: the kernel
// makes a port's default GID from the address of its interface, as a modified EUI-64
// (drivers/infiniband/core/roce_gid_mgmt.c). It is "" for other GIDs.
func (g GID) HardwareAddress() string {
	b := g.Address
	if g.Netdev == "" || b[0] != 0xfe || b[1]&0xc0 != 0x80 || b[11] != 0xff || b[12] != 0xfe {
		return ""
	}
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[8]^2, b[9], b[10], b[13], b[14], b[15])
}
