// Package policy applies a site's configuration to the HCAs of its nodes: which of them the driver
// publishes, for one claim or for many, with which shares and attributes.
//
// [Parse] reads the driver's policy (docs/policy.md). [Config.Apply]
// takes the snapshot of a host and the HCAs that claims hold. It returns a [Result]: a
// [Decision] for each HCA and each group of HCAs, with the reason.
// [Result.Slices] returns the node's slices.
//
// All functions are pure. A Config does not change after Parse, so another one
// can replace it at any time.
package policy

import (
	"encoding/json"
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
)

// Config is a valid policy. It never changes.
type Config struct {
	container    hostconfig.Container
	partitioning bool
	rules        []*rule
	groups       []*group
	taints       map[health.Condition]resourceapi.DeviceTaintEffect
	timing       timing
	ipam         map[string]json.RawMessage
	pools        map[string]*blocks.Pool
	leafFrom     []leaf.Source
	labelRail    *int64
}

// Container returns the administrator's settings for every RDMA container of the
// node.
func (c *Config) Container() hostconfig.Container {
	out := c.container
	out.Env, out.Mounts = maps.Clone(out.Env), append([]hostconfig.Mount(nil), out.Mounts...)
	return out
}

// Partitioning reports whether the devices of a card exclude each other by counters,
// if the API server has them.
func (c *Config) Partitioning() bool { return c.partitioning }

// Default is the policy of a node without a file: it publishes every usable HCA for
// one claim at a time.
func Default() *Config { return &Config{} }

// None is the policy of a node without a valid file. It offers nothing to new claims, and sets no taint, because the
// file may say that a fault is none. What claims hold stays published until they end.
func None() *Config {
	taints := map[health.Condition]resourceapi.DeviceTaintEffect{}
	for _, c := range health.Conditions() {
		taints[c] = health.EffectOff
	}
	c, err := Parse([]byte("apiVersion: " + APIVersion + "\nkind: " + Kind +
		"\nrules: [{name: no valid policy, publish: none}]\n"))
	if err != nil {
		panic(err) // the file is a constant
	}
	c.taints = taints
	return c
}

// Parse reads a policy. The error has the line and field of each
// problem.
func Parse(data []byte) (*Config, error) {
	lines := yamlread.PositionsOf(data)
	var f File
	if err := yamlread.Config.Decode(data, &f); err != nil {
		return nil, lines.Explain(err)
	}
	p := &problems{yamlread.Problems{Positions: lines}}
	c := &Config{container: f.Container, partitioning: f.Partitioning}
	p.header(&f)
	for i := range f.Rules {
		c.rules = append(c.rules, p.rule(element("rules", i), &f.Rules[i], &f))
	}
	for i := range f.Groups {
		c.groups = append(c.groups, p.group(element("groups", i), &f.Groups[i]))
	}
	c.taints = p.taints(f.Taints)
	c.timing = p.timing(&f)
	c.ipam, c.pools = p.ipam(f.IPAM)
	p.railIPAM(c, f.IPAM)
	c.leafFrom, c.labelRail = p.leafFrom(f.LeafFrom), f.LeafLabelRail
	between(p, "leafLabelRail", f.LeafLabelRail, 0, maxRail, 0)
	p.unique("rules", "rule", len(c.rules), func(i int) string { return c.rules[i].name })
	p.unique("groups", "group", len(c.groups), func(i int) string { return c.groups[i].name })
	if err := p.Join(); err != nil {
		return nil, err
	}
	return c, nil
}

func (p *problems) header(f *File) {
	if f.APIVersion != APIVersion {
		p.add("apiVersion", "want %s, not %q", APIVersion, f.APIVersion)
	}
	if f.Kind != Kind {
		p.add("kind", "want %s, not %q", Kind, f.Kind)
	}
	f.Container.Validate(p.Add)
}

// unique checks that the entries of a list have different names.
func (p *problems) unique(list, kind string, n int, name func(int) string) {
	seen := map[string]bool{"": true}
	for i := range n {
		if name := name(i); seen[name] && name != "" {
			p.add(element(list, i)+".name", "%q is the name of another %s", name, kind)
		} else {
			seen[name] = true
		}
	}
}

// features are the features of the selectors' compiler: none, because a policy must have the same
// meaning on every cluster.
var features = cel.Features{}
