package podnet

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Free returns an error if an interface of the host has one of the addresses for a pod. Addresses of the moved
// interface itself are free, because they leave the host with it.
func (h *Host) Free(addresses []netip.Prefix, o Original, mode string) error {
	if len(addresses) == 0 {
		return nil
	}
	return h.addresses(func(ip netip.Addr, index int) error {
		for _, a := range addresses {
			if ip == a.Addr().Unmap() && (mode != Move || index != o.Index) {
				return fmt.Errorf("address %s is the host's own, of %s: give the claim another one (network.addresses, or the "+
					"range of its ipam)", a.Addr(), nameOf(index))
			}
		}
		return nil
	})
}

// IPs returns all addresses of the host's interfaces.
func (h *Host) IPs() (ips map[netip.Addr]bool, err error) {
	ips = map[netip.Addr]bool{}
	return ips, h.addresses(func(ip netip.Addr, _ int) error {
		ips[ip] = true
		return nil
	})
}

// addresses calls a function in the host's namespace with each address of its interfaces, until an error. index is that
// of the interface.
func (h *Host) addresses(visit func(ip netip.Addr, index int) error) error {
	return h.own.Do(func() error {
		all, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
		if err != nil {
			return fmt.Errorf("list addresses of the host: %w", err)
		}
		for _, has := range all {
			if ip, ok := netip.AddrFromSlice(has.IP); ok {
				if err := visit(ip.Unmap(), has.LinkIndex); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// IPs returns the original addresses of the host's interface.
func (o *Original) IPs() (out []netip.Addr) {
	for _, a := range o.Addresses {
		if p, err := netip.ParsePrefix(a.IP); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out
}
