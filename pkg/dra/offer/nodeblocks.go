package offer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// nodeBlocks computes the node's blocks of addresses from the node object. It is safe for concurrent use.
type nodeBlocks struct {
	node atomic.Pointer[nodeRead] // nil until the API server has answered
}

// nodeRead is the node object as it was read.
type nodeRead struct {
	blocks.Node
	at time.Time
}

// rereadInterval is the shortest time between two reads of the node for a claim. The node's pod CIDR or label may be
// missing for a moment after the node has joined the cluster.
const rereadInterval = 10 * time.Second

var errNodeUnread = errors.New("this node's block of addresses is not known yet: the API server has not " +
	"returned the node object; the driver tries again")

// read stores the node object.
func (b *nodeBlocks) read(n *corev1.Node, now time.Time) {
	b.node.Store(&nodeRead{Node: blocks.NodeOf(n), at: now})
}

// stale reports whether the node object may be read again for a claim.
func (b *nodeBlocks) stale(now time.Time) bool {
	n := b.node.Load()
	return n != nil && now.Sub(n.at) >= rereadInterval
}

// blockOf returns the node's block of a pool.
func (b *nodeBlocks) blockOf(p *blocks.Pool) (blocks.Block, error) {
	n := b.node.Load()
	if n == nil {
		return blocks.Block{}, errNodeUnread
	}
	return p.Of(n.Node)
}

// noBlock returns the event that says why this node has no block of some pools, without a message if it has all.
func (b *nodeBlocks) noBlock(c *policy.Config) event.Event {
	var errs []error
	for _, own := range b.all(c) {
		if own.Err != nil && !errors.Is(own.Err, errNodeUnread) {
			errs = append(errs, fmt.Errorf("ipam %s: %w", own.IPAM, own.Err))
		}
	}
	e := event.Event{Reason: event.NoBlock}
	if err := errors.Join(errs...); err != nil {
		e.Message = err.Error()
	}
	return e
}

// NodeBlock is the node's block of one pool.
type NodeBlock struct {
	// IPAM is the name of the pool.
	IPAM   string
	Subnet string
	// Block is valid if Err is nil. Err is the reason why the node has no block.
	Block blocks.Block
	Err   error
}

// all returns the node's blocks of all pools, in the order of their names.
func (b *nodeBlocks) all(c *policy.Config) (out []NodeBlock) {
	pools := c.Pools()
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		own := NodeBlock{IPAM: name, Subnet: pools[name].Subnet.String()}
		own.Block, own.Err = b.blockOf(pools[name])
		out = append(out, own)
	}
	return out
}

// NodeBlocks returns the node's blocks of the present configuration.
func (o *Offer) NodeBlocks() []NodeBlock { return o.object.blocks.all(o.Policy.inForce.Load()) }

// networks returns the node's support for the interfaces of claims.
func (b *nodeBlocks) networks(c *policy.Config, hcas map[string]plan.HCANetwork) *plan.Networks {
	n := &plan.Networks{
		IPAM: map[string]json.RawMessage{}, NoIPAM: map[string]error{}, Pools: map[string]blocks.Block{}, HCAs: hcas,
	}
	maps.Copy(n.IPAM, c.IPAM())
	for _, own := range b.all(c) {
		pool := c.Pools()[own.IPAM]
		n.Pools[own.IPAM] = blocks.Block{Subnet: pool.Subnet, Block: own.Block.Block, Gateway: pool.Gateway}
		if own.Err == nil {
			n.IPAM[own.IPAM] = own.Block.Config()
		} else {
			n.NoIPAM[own.IPAM] = own.Err
		}
	}
	return n
}
