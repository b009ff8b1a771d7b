package dra

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

// addresses reads the GID tables of a host, when somebody wants to know: they change
// without an event, and nothing that is in a hurry needs them.
//
// The kernel makes the GIDs of a RoCE port from the addresses of its interface, in
// whichever network namespace that is, so they tell of an interface in a container what
// the host cannot see otherwise.
type addresses struct{ sys fs.FS }

// of returns the GIDs of a port. One that cannot be read is left out.
func (a addresses) of(h *rdma.HCA, port int) []rdma.GID {
	gids, _ := rdma.ReadGIDs(a.sys, h.IBDev, port)
	return gids
}

// inContainer reports whether the interface of a GID of a port is in another network namespace
// than the host's. The kernel prints its name alone: it is elsewhere if the host has none of
// that name, or if the port's own interface is not on the host.
func (a addresses) inContainer(p *rdma.Port, g rdma.GID) bool {
	if g.Netdev == "" || g.Netdev == p.Netdev {
		return false
	}
	if p.Netdev == "" {
		return true
	}
	_, err := fs.Stat(a.sys, "class/net/"+g.Netdev)
	return errors.Is(err, fs.ErrNotExist)
}

// hidden reports whether the drivers of the host keep GIDs of containers from it, as
// those of MLNX_OFED do (rdma_check_gid_user_access): what is not seen says nothing then.
func (a addresses) hidden() bool {
	_, err := fs.Stat(a.sys, "module/mlx_compat")
	return err == nil
}

// withoutNetdev names the interfaces of RoCE HCAs of a plan that are on the host, while no
// interface that belongs to the HCA is in any container. RoCE addresses are those of an
// interface, so a container with a network of its own has none then. What cannot be known is
// left out.
func (a addresses) withoutNetdev(p *plan.Plan, snap *rdma.Snapshot) (names []string) {
	if a.hidden() {
		return nil
	}
	for _, d := range p.Devices {
		if d.AdminAccess {
			continue
		}
		for _, name := range d.HCAs() {
			if h := snap.Lookup(name); h != nil && h.Protocol == rdma.ProtocolRoCE {
				names = append(names, a.onHost(h)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// onHost returns the interfaces of an HCA, if all that belongs to it is on the host.
func (a addresses) onHost(h *rdma.HCA) (names []string) {
	for i := range h.Ports {
		port := &h.Ports[i]
		if port.Representor {
			continue
		}
		moved := func(g rdma.GID) bool { return a.inContainer(port, g) }
		if port.Netdev == "" || slices.ContainsFunc(a.of(h, port.Number), moved) {
			return nil
		}
		names = append(names, port.Netdev)
	}
	return names
}

// maxIPs is how many addresses an interface has in the status of a claim at most (resource.k8s.io).
const maxIPs = 16

// network describes the interface that a container has of a device, nil where the host sees
// none: of a group or a share nobody could say in whose container it is. A GID has
// no prefix length, so each address stands alone.
func (a addresses) network(d plan.Device, snap *rdma.Snapshot) *resourceapi.NetworkDeviceData {
	name := devicename.Parse(d.Device)
	h := snap.Lookup(name.HCA)
	if h == nil || d.AdminAccess || name.Shared || name.Group != "" {
		return nil
	}
	for i := range h.Ports {
		port := &h.Ports[i]
		var out *resourceapi.NetworkDeviceData
		for _, g := range a.of(h, port.Number) {
			if port.Representor || !a.inContainer(port, g) {
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

// ipOf returns a GID as an IP address, of IPv4 where it was made from one.
func ipOf(g rdma.GID) netip.Addr { return netip.AddrFrom16(g.Address).Unmap() }

// add adds what a GID says of its interface.
func add(out *resourceapi.NetworkDeviceData, g rdma.GID) {
	out.HardwareAddress = cmp.Or(out.HardwareAddress, g.HardwareAddress())
	address := ipOf(g)
	ip := netip.PrefixFrom(address, address.BitLen()).String()
	if !address.IsLinkLocalUnicast() && len(out.IPs) < maxIPs && !slices.Contains(out.IPs, ip) {
		out.IPs = append(out.IPs, ip)
	}
}
