package explain

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// IPAM is an entry of ipam in the configuration.
type IPAM struct {
	Name string `json:"name"`
	// Subnet is divided among nodes, and Block is this node's part. Both are "" for a CNI plugin.
	Subnet string `json:"subnet,omitempty"`
	Block  string `json:"block,omitempty"`
	// Problem is the reason why the block is not known, or why the node has none.
	Problem string `json:"problem,omitempty"`
	// HCAs are the HCAs, as ibdev names, whose rail has the entry.
	HCAs []string `json:"hcas"`
}

// ErrNodeUnknown is the reason why the blocks of a node are not known without the cluster.
var ErrNodeUnknown = errors.New("the block of this node depends on its node object in the cluster: " +
	"name the node (--node-name)")

// ipam returns the entries of a configuration, without the node's blocks.
func ipam(c *policy.Config, decisions []policy.Decision) (out []IPAM) {
	subnets := map[string]string{}
	for name := range c.IPAM() {
		subnets[name] = ""
	}
	for name, pool := range c.Pools() {
		subnets[name] = pool.Subnet.String()
	}
	for _, name := range slices.Sorted(maps.Keys(subnets)) {
		one := IPAM{Name: name, Subnet: subnets[name], HCAs: []string{}}
		if one.Subnet != "" {
			one.Problem = ErrNodeUnknown.Error()
		}
		for _, d := range decisions {
			if d.IPAM == name {
				one.HCAs = append(one.HCAs, d.HCA.IBDev)
			}
		}
		out = append(out, one)
	}
	return out
}

// AddBlocks adds the blocks of a node. An entry that HCAs use and that has no block is unapplied. read is the
// error of reading the node, nil for none.
func (r *Report) AddBlocks(c *policy.Config, node blocks.Node, read error) {
	for i := range r.IPAM {
		one, pool := &r.IPAM[i], c.Pools()[r.IPAM[i].Name]
		if pool == nil {
			continue
		}
		one.Problem = ""
		err := read
		if err == nil {
			var own blocks.Block
			if own, err = pool.Of(node); err == nil {
				one.Block = own.Block.String()
			}
		}
		if err != nil {
			one.Problem = err.Error()
			if len(one.HCAs) > 0 {
				r.Unapplied = append(r.Unapplied, "ipam "+one.Name+": "+one.Problem)
			}
		}
	}
}

// ipam has the entries of ipam.
func (r *Report) ipam(n *notes) (rows [][]string) {
	for _, one := range r.IPAM {
		rows = append(rows, []string{one.Name, one.Subnet, one.Block, strings.Join(one.HCAs, ","), n.number(one.Problem)})
	}
	return rows
}
