package policy

import (
	"encoding/json"
	"errors"
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
	"github.com/rdma-dev/dra-driver-rdma/internal/yamlpath"
	"github.com/rdma-dev/dra-driver-rdma/internal/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// Config is a configuration file that was found to be valid. It is never changed.
type Config struct {
	container    hostconfig.Container
	partitioning bool
	rules        []*rule
	groups       []*group
	taints       map[health.Condition]resourceapi.DeviceTaintEffect
	timing       timing
	ipam         map[string]json.RawMessage
}

// Container is what every RDMA container of the node gets, as the administrator's
// settings.
func (c *Config) Container() hostconfig.Container {
	out := c.container
	out.Env, out.Mounts = maps.Clone(out.Env), append([]hostconfig.Mount(nil), out.Mounts...)
	return out
}

// Partitioning says whether the devices of a card exclude each other by counters,
// where the API server has them.
func (c *Config) Partitioning() bool { return c.partitioning }

// Default is the policy of a node without a file: every usable HCA is published for
// one claim alone.
func Default() *Config { return &Config{} }

// Parse reads a configuration file. An error names line and field of all that is
// wrong.
func Parse(data []byte) (*Config, error) {
	lines := yamlpath.Of(data)
	var f File
	if err := yamlread.Config.Decode(data, &f); err != nil {
		return nil, explain(err, lines)
	}
	p := &problems{positions: lines}
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
	c.ipam = p.ipam(f.IPAM)
	p.unique(c)
	if err := p.join(); err != nil {
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
	for _, err := range each(f.Container.Validate()) {
		var field *hostconfig.FieldError
		if errors.As(err, &field) {
			p.add(field.Field, "%w", field.Err)
		}
	}
}

// each takes joined errors apart.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// unique makes sure that a name means one thing.
func (p *problems) unique(c *Config) {
	rules, groups := map[string]bool{}, map[string]bool{}
	for i, r := range c.rules {
		if rules[r.name] && r.name != "" {
			p.add(element("rules", i)+".name", "%q is the name of another rule", r.name)
		}
		rules[r.name] = true
	}
	for i, g := range c.groups {
		if groups[g.name] && g.name != "" {
			p.add(element("groups", i)+".name", "%q is the name of another group", g.name)
		}
		groups[g.name] = true
	}
}

// features are those that selectors are compiled with: none, since a policy must mean
// the same on every cluster.
var features = cel.Features{}
