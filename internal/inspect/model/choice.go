package model

import "slices"

// NodeChoice chooses nodes by their names: all nodes if there are none, but no node if they come from a selector.
type NodeChoice struct {
	Names        []string
	FromSelector bool
}

// All reports whether all nodes are chosen.
func (c NodeChoice) All() bool { return len(c.Names) == 0 && !c.FromSelector }

// Has reports whether a node is chosen.
func (c NodeChoice) Has(node string) bool { return c.All() || slices.Contains(c.Names, node) }
