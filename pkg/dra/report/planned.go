package report

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// errNodeUnknown is the reason why the blocks of a node are not known without the cluster.
var errNodeUnknown = errors.New("the block of this node depends on its node object in the cluster: " +
	"name the node (--node-name)")

// Planned returns the data of a host on which a policy would be applied by a driver without claims. known are the
// features of its API server as far as they are known; the others count as there. fixed is policy.State.Fixed. The
// health is that of the first observation, at which each fault counts.
func Planned(
	host *node.Host, c *policy.Config, known policy.Features, fixed map[string]string, now time.Time,
) Inputs {
	model := health.New(health.DefaultConfig())
	model.Observe(health.Observation{Snapshot: host.Snapshot}, now)
	view := node.View{Host: host, Health: model.View()}
	effects := health.Policy{Effects: c.TaintEffects(), Informational: !known.Missing(policy.TaintEffectNone)}
	taints := view.Health.Taints(effects)
	state := policy.State{Taints: taints, Fixed: fixed}
	state.Lack(known.Missing)
	result := c.Apply(host.Snapshot, state)
	in := Inputs{
		Now: now, View: view, Decision: &result, Published: map[string][]*rdma.HCA{}, Taints: taints,
		Effect: effects.Effect, Features: policy.Features{}, Unmatched: c.Unmatched(result),
	}
	made := result.Slices()
	for feature := range policy.Uses(made) {
		in.Features[feature] = cmp.Or(known[feature], policy.FeatureNotSeen)
	}
	for feature := range known {
		if known.Missing(feature) {
			in.Features[feature] = policy.FeatureMissing
		}
	}
	for _, s := range made {
		for _, d := range s.Devices {
			in.Published[d.Name] = []*rdma.HCA{}
		}
	}
	subnets := map[string]string{}
	for name := range c.IPAM() {
		subnets[name] = ""
	}
	for name, pool := range c.Pools() {
		subnets[name] = pool.Subnet.String()
	}
	for _, name := range slices.Sorted(maps.Keys(subnets)) {
		one := blocks.Usage{IPAM: name, Subnet: subnets[name], Addresses: []blocks.Address{}}
		if one.Subnet != "" {
			one.Problem = errNodeUnknown.Error()
		}
		in.IPAM = append(in.IPAM, one)
	}
	return in
}
