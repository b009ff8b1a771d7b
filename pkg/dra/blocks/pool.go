// Package blocks divides a subnet among the nodes of a cluster: which block of addresses is a node's, and which address
// of the block is next.
//
// All functions are pure. Nodes share no state: a node computes the number of its block from what the cluster has
// assigned to it, its pod CIDR or a label. The addresses in use come from the caller.
package blocks

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// LabelPrefix is the only prefix of labels that a kubelet cannot set on its own node (admission plugin
// NodeRestriction).
const LabelPrefix = "node-restriction.kubernetes.io/"

// Settings are the settings of a pool as text.
type Settings struct {
	Subnet           string
	PerNode          *int64
	ClusterCIDR      []string
	NodeCIDRMaskSize *int64
	Label            string
	Gateway          string
}

// Pool is a subnet that is divided among nodes.
type Pool struct {
	Subnet netip.Prefix
	// PerNode is the length of a node's block.
	PerNode int
	// ClusterCIDRs are the networks of the cluster's pods. They are divided into pod CIDRs of the length NodeMask, which
	// are numbered one after the other. They are empty if Label is set.
	ClusterCIDRs []netip.Prefix
	NodeMask     int
	// Label is the label of a node with the number of its block.
	Label string
	// Gateway is the router of the subnet, invalid for none.
	Gateway netip.Addr
}

// maxNodeBits bounds the node CIDRs of one cluster CIDR to 2^32. The cluster's controller allows 2^16.
const maxNodeBits = 32

// Add takes a problem of a field of the settings.
type Add func(field, format string, args ...any)

// New returns the pool of some settings. It passes each problem to add.
func New(s Settings, add Add) *Pool {
	p := &Pool{Label: s.Label}
	var err error
	if p.Subnet, err = parse(s.Subnet); err != nil {
		add("subnet", "%w", err)
		return nil
	}
	p.perNode(s, add)
	p.gateway(s, add)
	switch {
	case len(s.ClusterCIDR) > 0 && s.Label != "":
		add("label", "clusterCIDR gives nodes their blocks already: set one of the two")
	case len(s.ClusterCIDR) > 0:
		p.cluster(s, add)
	case s.Label == "":
		add("clusterCIDR", "is required, or label: one of them says which block is a node's")
	default:
		p.label(add)
	}
	return p
}

func parse(text string) (netip.Prefix, error) {
	n, err := netip.ParsePrefix(text)
	switch {
	case err != nil || n.Addr().Is4In6():
		return n, fmt.Errorf("want a network such as 10.78.0.0/16 or fd00:78::/48, not %q", text)
	case n != n.Masked():
		return n, fmt.Errorf("%s has bits beyond its length: want %s", n, n.Masked())
	}
	return n, nil
}

// perNode validates the length of blocks. The first and the last address of a block are given to nobody, so a smaller
// block has none.
func (p *Pool) perNode(s Settings, add Add) {
	least, most := p.Subnet.Bits(), p.Subnet.Addr().BitLen()-2
	if p.Subnet.Addr().Is6() {
		least = max(least, 64) // a larger block is of no use, and its addresses could not be counted
	}
	switch n := s.PerNode; {
	case n == nil:
		add("perNode", "is required: the length of the block of each node, such as %d", min(least+8, most))
	case *n > int64(most):
		add("perNode", "a block of /%d is too small: its first and last address are given to nobody, so want %d to %d",
			*n, least, most)
	case *n < int64(least):
		add("perNode", "want the length of a block, %d to %d, not %d", least, most, *n)
	default:
		p.PerNode = int(*n)
	}
}

func (p *Pool) gateway(s Settings, add Add) {
	if s.Gateway == "" {
		return
	}
	a, err := netip.ParseAddr(s.Gateway)
	if err != nil || !p.Subnet.Contains(a) || a == p.Subnet.Addr() || a.Is4() && a == last(p.Subnet) {
		add("gateway", "want the address of a router in %s, not %q", p.Subnet, s.Gateway)
		return
	}
	p.Gateway = a
}

func (p *Pool) label(add Add) {
	if !strings.HasPrefix(p.Label, LabelPrefix) {
		add("label", "a kubelet can set the label %q on its own node, and so take the addresses of another one: "+
			"want a label that begins with %s", p.Label, LabelPrefix)
	} else if messages := validation.IsQualifiedName(p.Label); len(messages) > 0 {
		add("label", "%q is no name of a label: %s", p.Label, strings.Join(messages, "; "))
	}
}

// cluster validates the CIDRs of the cluster. All nodes must compute with the same numbers, so the length of a node's
// CIDR is a setting. If it came from the node itself, two nodes with different lengths could compute one number.
func (p *Pool) cluster(s Settings, add Add) {
	for i, text := range s.ClusterCIDR {
		field := fmt.Sprintf("clusterCIDR[%d]", i)
		c, err := parse(text)
		if err != nil {
			add(field, "%w", err)
			return
		}
		for _, other := range p.ClusterCIDRs {
			if other.Overlaps(c) {
				add(field, "%s overlaps %s: want each network of the cluster once", c, other)
				return
			}
			if other.Addr().Is4() != c.Addr().Is4() {
				add(field, "%s is of another IP family than %s: a node would have two numbers, so name those of one family",
					c, other)
				return
			}
		}
		if p.Subnet.Overlaps(c) {
			add("subnet", "%s overlaps %s of clusterCIDR, whose addresses the cluster gives to pods: want a network of its own",
				p.Subnet, c)
			return
		}
		p.ClusterCIDRs = append(p.ClusterCIDRs, c)
	}
	p.NodeMask = 24
	if p.ClusterCIDRs[0].Addr().Is6() {
		p.NodeMask = 64
	}
	if s.NodeCIDRMaskSize != nil {
		p.NodeMask = int(min(max(*s.NodeCIDRMaskSize, -1), 129))
	}
	for _, c := range p.ClusterCIDRs {
		if p.NodeMask < c.Bits() || p.NodeMask > c.Addr().BitLen() || p.NodeMask-c.Bits() > maxNodeBits {
			add("nodeCIDRMaskSize", "pod CIDRs of /%d do not divide %s: want the value of kube-controller-manager's "+
				"--node-cidr-mask-size", p.NodeMask, c)
			return
		}
	}
	if p.PerNode == 0 {
		return
	}
	if nodes, blocks := p.nodes(), p.blocks(); nodes > blocks {
		add("subnet", "%s has %d blocks of /%d, and %v has pod CIDRs of /%d for %d nodes: want a larger subnet or smaller "+
			"blocks", p.Subnet, blocks, p.PerNode, p.ClusterCIDRs, p.NodeMask, nodes)
	}
}

// nodes returns how many nodes can have a pod CIDR.
func (p *Pool) nodes() (n uint64) {
	for _, c := range p.ClusterCIDRs {
		n += 1 << (p.NodeMask - c.Bits())
	}
	return n
}

// blocks returns how many blocks the subnet has, at most 2^62.
func (p *Pool) blocks() uint64 { return 1 << min(p.PerNode-p.Subnet.Bits(), 62) }

// Node is a node as the API server has it.
type Node struct {
	Name     string
	PodCIDRs []string
	Labels   map[string]string
}

// NodeOf returns what blocks follow from.
func NodeOf(n *corev1.Node) Node {
	return Node{Name: n.Name, PodCIDRs: n.Spec.PodCIDRs, Labels: n.Labels}
}

// Of returns the block of a node.
func (p *Pool) Of(n Node) (Block, error) {
	number, err := p.number(n)
	if err != nil {
		return Block{}, err
	}
	if number >= p.blocks() {
		return Block{}, fmt.Errorf("node %s has block number %d, and %s has %d blocks of /%d: the numbers begin with 0",
			n.Name, number, p.Subnet, p.blocks(), p.PerNode)
	}
	own := Block{Type: Type, Subnet: p.Subnet, Gateway: p.Gateway}
	shift := uint(p.Subnet.Addr().BitLen() - p.PerNode)
	offset := new(big.Int).Lsh(new(big.Int).SetUint64(number), shift)
	own.Block = netip.PrefixFrom(plus(p.Subnet.Addr(), offset), p.PerNode)
	return own, nil
}

func (p *Pool) number(n Node) (uint64, error) {
	if p.Label != "" {
		return p.labelled(n)
	}
	var has []netip.Prefix // of the family of the cluster's networks
	for _, text := range n.PodCIDRs {
		c, err := netip.ParsePrefix(text)
		if err != nil {
			return 0, fmt.Errorf("read pod CIDR %q of node %s: %w", text, n.Name, err)
		}
		if c.Addr().Is4() == p.ClusterCIDRs[0].Addr().Is4() {
			has = append(has, c.Masked())
		}
	}
	switch len(has) {
	case 0:
		return 0, fmt.Errorf("node %s has no pod CIDR (spec.podCIDRs) of the family of clusterCIDR, which says which block "+
			"of %s is its: wait for the cluster's controller, or use label if the network of this cluster assigns none",
			n.Name, p.Subnet)
	case 1:
		return p.index(n, has[0])
	}
	return 0, fmt.Errorf("node %s has several pod CIDRs of one family, %v, so its block of %s is ambiguous: use label",
		n.Name, has, p.Subnet)
}

// index returns the place of a pod CIDR among those of all nodes.
func (p *Pool) index(n Node, pods netip.Prefix) (uint64, error) {
	before := uint64(0)
	for _, c := range p.ClusterCIDRs {
		if c.Bits() <= pods.Bits() && c.Contains(pods.Addr()) {
			if pods.Bits() != p.NodeMask {
				return 0, fmt.Errorf("pod CIDR %s of node %s has another length than /%d, so its block could be another "+
					"node's: set nodeCIDRMaskSize to the length that all nodes have, or use label", pods, n.Name, p.NodeMask)
			}
			offset := new(big.Int).Sub(number(pods.Addr()), number(c.Addr()))
			return before + offset.Rsh(offset, uint(pods.Addr().BitLen()-p.NodeMask)).Uint64(), nil
		}
		before += 1 << (p.NodeMask - c.Bits())
	}
	return 0, fmt.Errorf("pod CIDR %s of node %s is in none of the networks of clusterCIDR, %v: name all networks of the "+
		"cluster (kube-controller-manager --cluster-cidr)", pods, n.Name, p.ClusterCIDRs)
}

func (p *Pool) labelled(n Node) (uint64, error) {
	for _, cidr := range n.PodCIDRs { // the only networks of the cluster that are known here
		if c, err := netip.ParsePrefix(cidr); err == nil && c.Overlaps(p.Subnet) {
			return 0, fmt.Errorf("subnet %s overlaps pod CIDR %s of node %s, whose addresses the cluster gives to pods: want "+
				"a network of its own", p.Subnet, c, n.Name)
		}
	}
	text, ok := n.Labels[p.Label]
	if !ok {
		return 0, fmt.Errorf("node %s has no label %s, which says which block of %s is its: give each node a number of its "+
			"own, from 0 to %d (kubectl label node %s %s=NUMBER)",
			n.Name, p.Label, p.Subnet, p.blocks()-1, n.Name, p.Label)
	}
	number, err := strconv.ParseUint(text, 10, 62)
	if err != nil || strconv.FormatUint(number, 10) != text {
		return 0, fmt.Errorf("label %s of node %s is %q: want a number from 0 to %d",
			p.Label, n.Name, text, p.blocks()-1)
	}
	return number, nil
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// plus returns an address with an offset. The result must be an address of the same family.
func plus(a netip.Addr, offset *big.Int) netip.Addr {
	sum := new(big.Int).Add(number(a), offset)
	out, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, a.BitLen()/8)))
	return out
}

// last returns the last address of a network.
func last(n netip.Prefix) netip.Addr {
	size := new(big.Int).Lsh(big.NewInt(1), uint(n.Addr().BitLen()-n.Bits()))
	return plus(n.Addr(), size.Sub(size, big.NewInt(1)))
}

// Overlapping returns the pool among others that a pool overlaps, "" for none.
func (p *Pool) Overlapping(others map[string]*Pool) string {
	var names []string
	for name, other := range others {
		if other != p && other.Subnet.Overlaps(p.Subnet) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}
