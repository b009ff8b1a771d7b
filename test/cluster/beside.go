package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// Cable connects two clusters of this machine by a pair of interfaces, which are up: name is this cluster's end, peer
// the other one's. Both go with either cluster.
func (c *Cluster) Cable(ctx context.Context, other *Cluster, name, peer string, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Namespace = name, mtu, netlink.NsPid(c.pid)
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: peer, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsPid(other.pid),
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("create the interfaces %q and %q in the namespaces of two nodes: %w", name, peer, err)
	}
	if err := c.ip(ctx, "link set "+name+" up"); err != nil {
		return err
	}
	return other.ip(ctx, "link set "+peer+" up")
}

func (c *Cluster) ip(ctx context.Context, command string) error {
	_, err := c.Output(ctx, "ip", strings.Fields(command)...)
	return err
}

// uplink is the interface of a node that joins, to the cluster of this machine that it joins.
const uplink = "uplink"

// connect gives a node the way to the API server, the nodes and the pods of a cluster on this machine that it joins,
// and that cluster the way back. A whole machine has its own.
func (l layout) connect(ctx context.Context, c *Cluster) error {
	if l.Join == "" || l.WholeMachine {
		return nil
	}
	first, err := Open(ctx, Options{StateDir: l.Join, CacheDir: l.CacheDir})
	if err != nil {
		return fmt.Errorf("find the cluster to join: %w", err)
	}
	if err := c.Cable(ctx, first, uplink, l.node().Name, 1500); err != nil {
		return err
	}
	_, gateway := Node(1)
	for _, command := range []string{
		"link set " + uplink + " master " + NodeLink,
		"route add " + ServiceIP + " via " + gateway,
		"route add " + PodCIDR(1) + " via " + gateway,
	} {
		if err := c.ip(ctx, command); err != nil {
			return err
		}
	}
	if err := first.ip(ctx, "link set "+l.node().Name+" master "+NodeLink); err != nil {
		return err
	}
	return first.ip(ctx, "route replace "+PodCIDR(l.Node)+" via "+l.node().IP)
}
