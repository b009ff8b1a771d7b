package policy

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// IPAM returns the sections "ipam" of CNI configurations by their names. Nobody changes them.
func (c *Config) IPAM() map[string]json.RawMessage { return c.ipam }

var (
	ipamName   = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)
	pluginName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)
)

// ipam validates the common part of the sections. The plugin validates the rest.
func (p *problems) ipam(sections map[string]map[string]any) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		path := "ipam." + name
		if !ipamName.MatchString(name) {
			p.add(path, "%q is no name: want up to 63 letters, digits and . _ -", name)
			continue
		}
		plugin, ok := sections[name]["type"].(string)
		if !ok || !pluginName.MatchString(plugin) {
			p.add(path+".type", "want the name of a CNI plugin such as host-local, without a path, not %v",
				sections[name]["type"])
			continue
		}
		if plugin == "dhcp" {
			p.add(path+".type", "dhcp needs the interface in the pod before it gives an address, and a daemon beside it: "+
				"an interface of a claim has its address from its first moment; use host-local")
			continue
		}
		data, err := json.Marshal(sections[name])
		if err != nil {
			p.add(path, "%w", err)
			continue
		}
		out[name] = data
	}
	return out
}
