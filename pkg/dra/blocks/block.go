package blocks

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
)

// Type is the "type" of a block's configuration. No CNI plugin has such a name: it is a path.
const Type = "rdma.dev/block"

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
