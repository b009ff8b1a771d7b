package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// FileIPAM is a way to assign addresses. The fields beside type are for an entry without a type.
type FileIPAM struct {
	// Type is a CNI plugin, such as host-local. The entry is then the section ipam of a CNI configuration, with any
	// field of the plugin. Defaults to the driver's own blocks.
	Type string `yaml:"type"`
	// Subnet is the network of all nodes, which the driver divides into a block for each node. Addresses have its
	// length.
	Subnet string `yaml:"subnet"`
	// PerNode is the length of a node's block, such as 24.
	PerNode *int64 `yaml:"perNode"`
	// ClusterCIDR are the networks of the cluster's pods, all of one IP family. The place of a node's pod CIDR in them is
	// the number of its block.
	ClusterCIDR []string `yaml:"clusterCIDR"`
	// NodeCIDRMaskSize is the length of the pod CIDR of every node. Defaults to 24 for IPv4 and 64 for IPv6.
	NodeCIDRMaskSize *int64 `yaml:"nodeCIDRMaskSize"`
	// Label is the label of a node with the number of its block, instead of clusterCIDR. It begins with
	// node-restriction.kubernetes.io/.
	Label string `yaml:"label"`
	// Gateway is the address of the subnet's router. No pod gets it. Defaults to none.
	Gateway string `yaml:"gateway"`

	section map[string]any `yaml:"-"` // all fields of an entry with a type
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (f *FileIPAM) UnmarshalYAML(node *yaml.Node) error {
	type plain FileIPAM
	if node.Kind != yaml.MappingNode { // the format of the decoder's errors, which explain rewords
		return &yaml.TypeError{Errors: []string{
			fmt.Sprintf("line %d: cannot unmarshal %s into policy.FileIPAM", node.Line, node.ShortTag())}}
	}
	var all map[string]any
	if err := node.Decode(&all); err != nil {
		return err
	}
	if _, ok := all["type"]; ok {
		f.section = all
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(ownFields, key) {
			return &yaml.TypeError{Errors: []string{
				fmt.Sprintf("line %d: field %s not found in type policy.FileIPAM", lineOf(node, key), key)}}
		}
	}
	return node.Decode((*plain)(f))
}

// ownFields are the fields of an entry without a type.
var ownFields = func() (names []string) {
	t := reflect.TypeFor[FileIPAM]()
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "-" && name != "type" {
			names = append(names, name)
		}
	}
	return names
}()

func lineOf(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i].Line
		}
	}
	return mapping.Line
}

// IPAM returns the sections "ipam" of CNI configurations by their names. Nobody changes them.
func (c *Config) IPAM() map[string]json.RawMessage { return c.ipam }

// Pools returns the subnets that are divided among nodes, by their names. Nobody changes them.
func (c *Config) Pools() map[string]*blocks.Pool { return c.pools }

var (
	ipamName   = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)
	pluginName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)
)

// ipam validates the entries. Of a CNI configuration the plugin validates all but the type.
func (p *problems) ipam(entries map[string]FileIPAM) (map[string]json.RawMessage, map[string]*blocks.Pool) {
	sections, pools := map[string]json.RawMessage{}, map[string]*blocks.Pool{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, path := entries[name], "ipam."+name
		switch {
		case !ipamName.MatchString(name):
			p.add(path, "%q is no name: want up to 63 letters, digits and . _ -", name)
		case name == v1alpha1.NetworkRailIPAM:
			p.add(path, "claims request the entry of their HCA's rule by the name %s: choose another name", name)
		case entry.section != nil:
			p.plugin(path, name, entry.section, sections)
		default:
			p.pool(path, name, entry, pools)
		}
	}
	return sections, pools
}

func (p *problems) plugin(path, name string, section map[string]any, into map[string]json.RawMessage) {
	plugin, ok := section["type"].(string)
	if !ok || !pluginName.MatchString(plugin) {
		p.add(path+".type", "want the name of a CNI plugin such as host-local, without a path, not %v", section["type"])
		return
	}
	if plugin == "dhcp" {
		p.add(path+".type", "dhcp needs the interface in the pod before it gives an address, and a daemon beside it: "+
			"an interface of a claim has its address from its first moment; use host-local")
		return
	}
	data, err := json.Marshal(section)
	if err != nil {
		p.add(path, "%w", err)
		return
	}
	into[name] = data
}

func (p *problems) pool(path, name string, entry FileIPAM, into map[string]*blocks.Pool) {
	if entry.Subnet == "" {
		p.add(path, "want type, the name of a CNI plugin such as host-local, or subnet, which is divided among the nodes")
		return
	}
	pool := blocks.New(blocks.Settings{
		Subnet: entry.Subnet, PerNode: entry.PerNode, ClusterCIDR: entry.ClusterCIDR,
		NodeCIDRMaskSize: entry.NodeCIDRMaskSize, Label: entry.Label, Gateway: entry.Gateway,
	}, func(field, format string, args ...any) { p.add(path+"."+field, format, args...) })
	if pool == nil {
		return
	}
	if other := pool.Overlapping(into); other != "" {
		p.add(path+".subnet", "%s overlaps %s, the subnet of ipam %s, and both would give out its addresses: "+
			"want a subnet for each, or one entry for both", pool.Subnet, into[other].Subnet, other)
	}
	into[name] = pool
}

// ruleIPAM validates the entries of ipam that a rule names. railIPAM looks whether they exist.
func (p *problems) ruleIPAM(path string, e *FileRule, r *rule) {
	switch {
	case e.IPAM != "" && e.RailIPAM != nil:
		p.add(path+".railIPAM", "ipam gives all HCAs of the rule one network, railIPAM one for each number of rails: "+
			"set one of them")
	case e.RailIPAM != nil && r.rails == 0:
		p.add(path+".railIPAM", "needs rails, which numbers the cards")
	case e.RailIPAM != nil && int64(len(e.RailIPAM)) != r.rails:
		p.add(path+".railIPAM", "want %d names, one for each number of rails, not %d", r.rails, len(e.RailIPAM))
	default:
		r.ipam, r.railIPAM = e.IPAM, e.RailIPAM
	}
	if (e.IPAM != "" || e.RailIPAM != nil) && r.resource != "" {
		p.add(path+".resourceName", "gives the HCAs of the rule to CNI plugins, and so their addresses, "+
			"and ipam is for interfaces that the driver attaches: set one of them")
	}
}

// railIPAM checks that the entries of ipam that rules name exist, and that each rail is one network. If two rules gave
// a rail two networks, HCAs of one rail could not reach each other.
func (p *problems) railIPAM(c *Config, entries map[string]FileIPAM) {
	for i, r := range c.rules {
		path := element("rules", i) + ".ipam"
		if r.railIPAM != nil {
			path = element("rules", i) + ".railIPAM"
		}
		for _, name := range r.namesIPAM() {
			if _, ok := entries[name]; !ok {
				p.add(path, "%q is no entry of ipam, which has %s", name, listed(entries))
			}
		}
		for _, other := range c.rules[:i] {
			if rail, ok := r.disagrees(other); ok {
				p.add(path, "rail %d has ipam %s by rule %s, and %s by this one: want one network for a rail",
					rail, other.ipamOf(rail), other.name, r.ipamOf(rail))
				break
			}
		}
	}
}

func (r *rule) namesIPAM() []string {
	if r.ipam != "" {
		return []string{r.ipam}
	}
	return r.railIPAM
}

// disagrees returns a rail to which two rules give different entries of ipam.
func (r *rule) disagrees(other *rule) (rail int64, ok bool) {
	for _, one := range []*rule{r, other} {
		for _, rail := range one.someRails() {
			a, b := r.ipamOf(rail), other.ipamOf(rail)
			if a != "" && b != "" && a != b {
				return rail, true
			}
		}
	}
	return 0, false
}

// someRails returns rails of a rule: at least one for each of its entries of ipam.
func (r *rule) someRails() []int64 {
	switch {
	case r.rail != nil:
		return []int64{*r.rail}
	case r.rails == 0:
		return nil
	}
	rails := []int64{0}
	for i := 1; i < len(r.railIPAM); i++ {
		rails = append(rails, int64(i))
	}
	return rails
}

// ipamOf returns the entry of ipam of a rail, "" if the rule has no such rail or no entry.
func (r *rule) ipamOf(rail int64) string {
	switch {
	case rail < 0, r.rail != nil && *r.rail != rail, r.rail == nil && rail >= r.rails:
		return ""
	case r.railIPAM != nil:
		return r.railIPAM[rail]
	}
	return r.ipam
}

// ipamOfHCA returns the entry of ipam of an HCA, "" for none. number is the number of its card in the rule, negative
// for none.
func (r *rule) ipamOfHCA(number int) string {
	if r.railIPAM != nil {
		return r.ipamOf(int64(number))
	}
	return r.ipam
}

func listed(entries map[string]FileIPAM) string {
	if len(entries) == 0 {
		return "no entry"
	}
	return strings.Join(slices.Sorted(maps.Keys(entries)), ", ")
}
