package report

import (
	"cmp"
	"errors"
	"io/fs"
	"net/netip"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Addresses reads the GID tables of a host. It reads them at each call, because they change without an event.
//
// The kernel makes the GIDs of a RoCE port from the addresses of its interface, in any network namespace. So they show
// the addresses of an interface in a container, which the host cannot see otherwise.
type Addresses struct{ Sys fs.FS }

// gidsOf returns the readable GIDs of a port.
func (a Addresses) gidsOf(h *rdma.HCA, port int) []rdma.GID {
	gids, _ := rdma.ReadGIDs(a.Sys, h.IBDev, port)
	return gids
}

// inContainer reports whether the interface of a GID of a port is in another network namespace than the host's. The
// kernel prints only its name: it is elsewhere if the host has no interface of that name, or if the port's own
// interface is not on the host.
func (a Addresses) inContainer(p *rdma.Port, g rdma.GID) bool {
	if g.Netdev == "" || g.Netdev == p.Netdev {
		return false
	}
	if p.Netdev == "" {
		return true
	}
	_, err := fs.Stat(a.Sys, "class/net/"+g.Netdev)
	return errors.Is(err, fs.ErrNotExist)
}

// hidden reports whether the drivers of the host hide the GIDs of containers from it, as the drivers of MLNX_OFED do
// (rdma_check_gid_user_access). If they do, a missing GID has no meaning.
func (a Addresses) hidden() bool {
	_, err := fs.Stat(a.Sys, "module/mlx_compat")
	return err == nil
}

// WithoutNetdev returns the interfaces of the RoCE and iWARP HCAs of a plan that are all on the host, so that no
// container has them. Both protocols use the addresses of interfaces, so a container with its own network then has no
// address. HCAs whose interfaces cannot be determined are omitted.
func (a Addresses) WithoutNetdev(p *plan.Plan, snap *rdma.Snapshot) (names []string) {
	if a.hidden() {
		return nil
	}
	for _, d := range p.Devices {
		if d.AdminAccess {
			continue
		}
		for _, name := range d.HCAs() {
			h := snap.Lookup(name)
			if h != nil && (h.Protocol == rdma.ProtocolRoCE || h.Protocol == rdma.ProtocolIWARP) {
				names = append(names, a.hostInterfaces(h)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hostInterfaces returns the interfaces of an HCA, if all of them are on the host.
func (a Addresses) hostInterfaces(h *rdma.HCA) (names []string) {
	for port := range h.OwnPorts() {
		moved := func(g rdma.GID) bool { return a.inContainer(port, g) }
		if port.Netdev == "" || slices.ContainsFunc(a.gidsOf(h, port.Number), moved) {
			return nil
		}
		names = append(names, port.Netdev)
	}
	return names
}

// MaxIPs is the largest number of addresses of an interface in the status of a claim (resource.k8s.io).
const MaxIPs = 16

// network describes the interface of a device in a container, nil if the host sees none. For a group or a share it is
// unknown which container has an interface. A GID has no prefix length, so each address gets that of a single host.
func (a Addresses) network(d plan.Device, snap *rdma.Snapshot) *resourceapi.NetworkDeviceData {
	name := devicename.Parse(d.Device)
	h := snap.Lookup(name.HCA)
	if h == nil || d.AdminAccess || name.Shared || name.Group != "" {
		return nil
	}
	for port := range h.OwnPorts() {
		var out *resourceapi.NetworkDeviceData
		for _, g := range a.gidsOf(h, port.Number) {
			if !a.inContainer(port, g) {
				continue
			}
			if out == nil {
				out = &resourceapi.NetworkDeviceData{InterfaceName: g.Netdev}
			}
			if g.Netdev == out.InterfaceName {
				add(out, g)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

// ipOf returns a GID as an IP address: as an IPv4 address if the GID was made from one.
func ipOf(g rdma.GID) netip.Addr { return netip.AddrFrom16(g.Address).Unmap() }

// add adds the address and the hardware address of a GID to its interface.
func add(out *resourceapi.NetworkDeviceData, g rdma.GID) {
	out.HardwareAddress = cmp.Or(out.HardwareAddress, g.HardwareAddress())
	address := ipOf(g)
	ip := netip.PrefixFrom(address, address.BitLen()).String()
	if !address.IsLinkLocalUnicast() && len(out.IPs) < MaxIPs && !slices.Contains(out.IPs, ip) {
		out.IPs = append(out.IPs, ip)
	}
}
