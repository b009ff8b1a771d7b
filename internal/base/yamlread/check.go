package yamlread

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// checker checks a document before it is decoded.
type checker struct {
	limits  Limits
	sizes   map[*yaml.Node]size // of each complete anchor
	pending map[*yaml.Node]bool // anchors in progress: an alias to one of them would never end
	wrong   []error
}

// size is the size of a value with all its content.
type size struct{ values, bytes int }

// check returns the size of a document, and an error if it exceeds the limits or has duplicate keys.
func (l Limits) check(root *yaml.Node) (size, error) {
	c := &checker{limits: l, sizes: map[*yaml.Node]size{}, pending: map[*yaml.Node]bool{}}
	all, err := c.size(root, 0)
	if err != nil {
		return all, err
	}
	return all, Join(c.wrong)
}

// size counts a value, and stops at the first exceeded limit.
func (c *checker) size(n *yaml.Node, depth int) (size, error) {
	if n.Kind == yaml.AliasNode {
		return c.alias(n)
	}
	if depth > maxDepth {
		return size{}, fmt.Errorf("line %d: it is nested more than %d deep", n.Line, maxDepth)
	}
	if n.Kind == yaml.MappingNode {
		if err := c.keys(n); err != nil {
			return size{}, err
		}
	}
	if n.Anchor != "" {
		c.pending[n] = true
		defer delete(c.pending, n)
	}
	all := size{1, len(n.Value) + len(n.Tag)}
	for _, child := range n.Content {
		s, err := c.size(child, depth+1)
		if err != nil {
			return size{}, err
		}
		all.values, all.bytes = all.values+s.values, all.bytes+s.bytes
		if all.values > c.limits.Values {
			return size{}, c.limits.tooMany()
		}
		if all.bytes > c.limits.Size {
			return size{}, c.limits.tooMuchText()
		}
	}
	if n.Anchor != "" {
		c.sizes[n] = all
	}
	return all, nil
}

// alias returns the size of an alias's anchor, which is already counted. The depth check does not follow aliases: each
// anchor is within the limit itself, and the number of all values is bounded.
func (c *checker) alias(n *yaml.Node) (size, error) {
	if c.pending[n.Alias] {
		return size{}, fmt.Errorf("line %d: alias %q is part of what it stands for", n.Line, n.Value)
	}
	return c.sizes[n.Alias], nil
}

// keys records the duplicate keys of a mapping. It uses the same definition of equality as the decoder.
func (c *checker) keys(n *yaml.Node) error {
	if len(n.Content)/2 > maxKeys {
		return fmt.Errorf("line %d: it has more than %d keys in one place", n.Line, maxKeys)
	}
	type key struct {
		kind  yaml.Kind
		value string
	}
	first := make(map[key]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if line, ok := first[key{k.Kind, k.Value}]; ok {
			c.wrong = append(c.wrong, fmt.Errorf("line %d: mapping key %q already defined at line %d", k.Line, k.Value, line))
			continue
		}
		first[key{k.Kind, k.Value}] = k.Line
	}
	return nil
}
