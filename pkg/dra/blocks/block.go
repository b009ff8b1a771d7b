package blocks

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Type is the "type" of a block's configuration. No CNI plugin has such a name: it is a path.
const Type = rdma.Domain + "/block"

// Block is a node's part of a pool. In a plan and in a record it stands in the place of the configuration of a CNI
// plugin.
type Block struct {
	Type string `json:"type"`
	// Subnet is the network of all nodes. An address of the block has its length.
	Subnet netip.Prefix `json:"subnet"`
	Block  netip.Prefix `json:"block"`
	// Gateway is invalid for none.
	Gateway netip.Addr `json:"gateway,omitzero"`
}

// Config returns a block as a configuration.
func (b Block) Config() json.RawMessage {
	data, err := json.Marshal(b)
	if err != nil {
		panic(err) // addresses and texts can always be encoded
	}
	return data
}

// Read returns the block that a configuration is. ok is false for the configuration of a CNI plugin.
func Read(config json.RawMessage) (b Block, ok bool, err error) {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(config, &kind) != nil || kind.Type != Type {
		return b, false, nil // CNI's errors say what is wrong with it
	}
	if err = json.Unmarshal(config, &b); err == nil && !(b.Block.IsValid() && b.Subnet.IsValid()) {
		err = fmt.Errorf("it lacks a block or a subnet")
	}
	if err != nil {
		return b, true, fmt.Errorf("read a block of addresses: %w", err)
	}
	return b, true, nil
}

// Size returns how many addresses pods can have. The first and the last one of the block are given to nobody: networks
// and routers treat the first and the last address of the subnet specially, and some those of each /24.
func (b Block) Size() uint64 {
	size := new(big.Int).Lsh(big.NewInt(1), uint(b.Block.Addr().BitLen()-b.Block.Bits()))
	n := size.Sub(size, big.NewInt(2)).Uint64() // perNode bounds it to 64 bits
	if b.Block.Contains(b.Gateway) && b.Gateway != b.Block.Addr() && b.Gateway != last(b.Block) {
		n--
	}
	return n
}

// Next returns the next free address after another one. After the last address of the block it begins again with the
// first one. ok is false if no address is free.
func (b Block) Next(after netip.Addr, used func(netip.Addr) bool) (a netip.Addr, ok bool) {
	first, end := b.Block.Addr(), last(b.Block)
	start := first
	if b.Block.Contains(after) {
		start = after
	}
	for a = start; ; {
		if a == end {
			a = first
		} else {
			a = a.Next()
		}
		if a != first && a != end && a != b.Gateway && !used(a) {
			return a, true
		}
		if a == start {
			return a, false
		}
	}
}

// Prefix returns an address of the block with the length of the subnet.
func (b Block) Prefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, b.Subnet.Bits()) }

// Reserved returns why no claim may name an address itself, nil if the pool leaves it free. b.Block is invalid for a
// node without a block. An address outside the pool's subnet is free, and the length of a claim's prefix says nothing:
// the kernel gives the interface the address all the same.
func (b Block) Reserved(a netip.Addr) error {
	a = a.Unmap()
	if !b.Subnet.Contains(a) {
		return nil
	}
	switch {
	case a == b.Gateway:
		return fmt.Errorf("%s is the gateway of %s", a, b.Subnet)
	case a == b.Subnet.Addr(), a == last(b.Subnet):
		return fmt.Errorf("%s is the first or last address of %s, which networks and routers treat specially", a, b.Subnet)
	case !b.Block.IsValid():
		return fmt.Errorf("%s is of %s, and this node has no block of it", a, b.Subnet)
	case !b.Block.Contains(a):
		return fmt.Errorf("%s is in another node's block of %s: this node has %s", a, b.Subnet, b.Block)
	case a == b.Block.Addr(), a == last(b.Block):
		return fmt.Errorf("%s is the first or last address of this node's block %s, which are given to nobody", a, b.Block)
	}
	return nil
}

// Usage is one entry of ipam: the node's block, with the addresses that pods have. A CNI plugin has no subnet and no
// block.
type Usage struct {
	IPAM   string `json:"ipam"`
	Subnet string `json:"subnet,omitempty"`
	Block  string `json:"block,omitempty"`
	// Problem is the reason why the node has no block, or why it is not known. Then Size is 0.
	Problem string `json:"problem,omitempty"`
	// Size is the number of addresses that pods can have. Addresses are those in use.
	Size      uint64    `json:"size"`
	Addresses []Address `json:"addresses"`
	// HCAs are the HCAs, as ibdev names, whose rail has the entry.
	HCAs []string `json:"hcas"`
}

// Address is an address of a pod.
type Address struct {
	Address   string `json:"address"`
	Interface string `json:"interface"` // in the pod
	Pod       string `json:"pod"`       // namespace/name
	Claim     string `json:"claim"`     // namespace/name
	Device    string `json:"device"`
}
