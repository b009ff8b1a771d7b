package rdma

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Changes names the parts of a host that may have changed since a snapshot. It is the argument of
// [Scanner.Update]. A named part may be unchanged, and may be gone.
type Changes struct {
	// All means that anything may have changed: events were lost.
	All bool
	// Host means the parts that belong to no HCA: the rdma_cm node and the netns mode.
	Host bool
	// IBDevs are entries of /sys/class/infiniband.
	IBDevs Names
	// Nodes are uverbs, umad and issm nodes, by the kernel's name.
	Nodes Names
	// Netdevs are network interfaces, by name.
	Netdevs Names
	// Functions are PCI functions, by address.
	Functions Names
}

// Names is a set of names; the zero value is empty and ready to be added to.
type Names map[string]struct{}

// NamesOf returns the set of the given names. The empty name is never in a set.
func NamesOf(names ...string) Names {
	var n Names
	n.Add(names...)
	return n
}

// Add puts names into the set.
func (n *Names) Add(names ...string) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if *n == nil {
			*n = Names{}
		}
		(*n)[name] = struct{}{}
	}
}

// Has reports whether a name is in the set.
func (n Names) Has(name string) bool {
	_, ok := n[name]
	return ok
}

// Sorted returns the names in order.
func (n Names) Sorted() []string { return slices.Sorted(maps.Keys(n)) }

// Empty reports whether c names nothing.
func (c Changes) Empty() bool {
	return !c.All && !c.Host && len(c.IBDevs)+len(c.Nodes)+len(c.Netdevs)+len(c.Functions) == 0
}

// Merge adds everything that other names.
func (c *Changes) Merge(other Changes) {
	c.All = c.All || other.All
	c.Host = c.Host || other.Host
	to := c.sets()
	for i, from := range other.sets() {
		for name := range *from {
			to[i].Add(name)
		}
	}
}

func (c *Changes) sets() [4]*Names { return [4]*Names{&c.IBDevs, &c.Nodes, &c.Netdevs, &c.Functions} }

// String describes the changes for a log.
func (c Changes) String() string {
	if c.All {
		return "everything"
	}
	var parts []string
	if c.Host {
		parts = append(parts, "host")
	}
	for i, what := range []string{"HCAs", "nodes", "interfaces", "PCI functions"} {
		if names := c.sets()[i].Sorted(); len(names) > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", what, strings.Join(names, " ")))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}
