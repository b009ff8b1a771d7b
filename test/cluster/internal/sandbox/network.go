package sandbox

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// NodeLink carries the node's address. A bridge without ports needs no driver that
// a small kernel may lack, and the kubelet refuses a loopback address.
const NodeLink = "node0"

// setupNetwork brings up lo with the API server's service address on it, so that
// the in-cluster configuration works without kube-proxy, and the node's link.
func setupNetwork(c Config) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find link %q: %w", "lo", err)
	}
	if c.ServiceAddr != "" {
		err = addAndUp(lo, c.ServiceAddr+"/32")
	} else {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bring link %q up: %w", "lo", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = NodeLink
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("create bridge %q: %w", NodeLink, err)
	}
	return addAndUp(bridge, c.NodeAddr)
}

func addAndUp(link netlink.Link, cidr string) error {
	name := link.Attrs().Name
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		return fmt.Errorf("parse address %q: %w", cidr, err)
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("add address %s to link %q: %w", cidr, name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring link %q up: %w", name, err)
	}
	return nil
}
