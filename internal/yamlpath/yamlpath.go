// Package yamlpath tells where the fields of a YAML file stand, so that an error names
// the line beside the field.
package yamlpath

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Positions are the places of fields, by path: rules[0].attributes["example.com/x"].
type Positions map[string]Position

// Position is the place of a field.
type Position struct {
	Line  int // of the field's name, or of the list's item
	value *yaml.Node
}

// Of returns the places of the fields of a file; none where it has no fields, or is no YAML.
func Of(data []byte) Positions {
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 {
		return nil // the decoder says what is wrong
	}
	p := Positions{}
	p.add("", root.Content[0])
	return p
}

// add does not follow aliases: what one stands for has the place of the alias.
func (p Positions) add(path string, node *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			child := Join(path, node.Content[i].Value)
			p[child] = Position{node.Content[i].Line, node.Content[i+1]}
			p.add(child, node.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			child := fmt.Sprintf("%s[%d]", path, i)
			p[child] = Position{item.Line, item}
			p.add(child, item)
		}
	}
}

var plainKey = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

// Join makes the path of a field.
func Join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// Line returns the line of a field, or of the nearest one around it; 0 if there is none.
func (p Positions) Line(path string) int {
	for path != "" {
		if at, ok := p[path]; ok {
			return at.Line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// Field returns the path of a field that stands in a line.
func (p Positions) Field(line int, key string) string {
	suffix := strings.TrimPrefix(Join("x", key), "x")
	return cmp.Or(p.shortest(func(path string, at Position) bool {
		return at.Line == line && (path == key || strings.HasSuffix(path, suffix))
	}), key)
}

// Text returns the path of what has a value in a line, of which the decoder may have
// kept the beginning only.
func (p Positions) Text(line int, value string) string {
	value = strings.TrimSuffix(value, "...")
	return p.shortest(func(_ string, at Position) bool {
		return at.value.Line == line && strings.HasPrefix(at.value.Value, value)
	})
}

// shortest returns the shortest path that fits, "" if there is none.
func (p Positions) shortest(fits func(path string, at Position) bool) string {
	var found []string
	for path, at := range p {
		if fits(path, at) {
			found = append(found, path)
		}
	}
	if found == nil {
		return ""
	}
	return slices.MinFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
}
