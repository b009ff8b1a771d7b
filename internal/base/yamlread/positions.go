package yamlread

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Positions are the positions of the fields of a file. A path has the form rules[0].attributes["example.com/x"].
//
// Positions are not safe for concurrent use. They do not store the paths: each path repeats all keys above it, so all
// paths together would take memory quadratic in the size of the file.
type Positions struct {
	root *yaml.Node
	// fields caches the fields of each collection on a looked-up path, by the last part of their paths.
	fields map[*yaml.Node]map[string]field
}

// field is a key with its value, or an item of a list.
type field struct {
	line  int // of the key
	value *yaml.Node
}

// PositionsOf returns the positions of the fields of a file. The result is empty if the file has no fields, or is not YAML.
func PositionsOf(data []byte) *Positions {
	p := &Positions{fields: map[*yaml.Node]map[string]field{}}
	root, err := Config.Parse(data)
	if err == nil && len(root.Content) > 0 { // otherwise the decoder reports the error
		p.root = root.Content[0]
	}
	return p
}

// each calls a function for each field of a collection. It does not follow aliases: the content of an alias has the
// position of the alias.
func each(node *yaml.Node, visit func(part string, f field)) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			visit(part(node.Content[i].Value), field{node.Content[i].Line, node.Content[i+1]})
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			visit(fmt.Sprintf("[%d]", i), field{item.Line, item})
		}
	}
}

var plainKey = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

// part returns the part of a path for a key.
func part(key string) string {
	if plainKey.MatchString(key) {
		return "." + key
	}
	return fmt.Sprintf("[%q]", key)
}

// Path returns the path of a field.
func Path(path, key string) string { return strings.TrimPrefix(path+part(key), ".") }

// next splits the first part from a path that begins with a dot or a bracket.
func next(path string) (part, rest string) {
	end := len(path)
	if quoted, err := strconv.QuotedPrefix(path[1:]); path[0] == '[' && err == nil {
		end = min(1+len(quoted)+1, end)
	} else if i := strings.IndexAny(path[1:], ".["); i >= 0 {
		end = 1 + i
	}
	return path[:end], path[end:]
}

// Line returns the line of a field, or of the nearest field around it; 0 if there is none.
func (p *Positions) Line(path string) (line int) {
	if path == "" || p.root == nil {
		return 0
	}
	if path[0] != '[' {
		path = "." + path
	}
	for at := p.root; path != ""; {
		var name string
		name, path = next(path)
		f, ok := p.fieldsOf(at)[name]
		if !ok {
			return line
		}
		line, at = f.line, f.value
	}
	return line
}

// fieldsOf returns the fields of a collection, and caches them.
func (p *Positions) fieldsOf(node *yaml.Node) map[string]field {
	if known, ok := p.fields[node]; ok {
		return known
	}
	fields := make(map[string]field, len(node.Content))
	each(node, func(part string, f field) { fields[part] = f })
	p.fields[node] = fields
	return fields
}

// Field returns the path of a field in a line, or the key if there is no such field.
func (p *Positions) Field(line int, key string) string {
	want := part(key)
	if path := p.shortest(func(part string, f field) bool { return f.line == line && part == want }); path != "" {
		return path
	}
	return key
}

// Text returns the path of the field whose value is in a line. The decoder may have truncated the value.
func (p *Positions) Text(line int, value string) string {
	value = strings.TrimSuffix(value, "...")
	return p.shortest(func(_ string, f field) bool {
		return f.value.Line == line && strings.HasPrefix(f.value.Value, value)
	})
}

// shortest returns the shortest matching path, or the alphabetically first of several; "" if none matches.
func (p *Positions) shortest(fits func(part string, f field) bool) string {
	best := ""
	var walk func(node *yaml.Node, parts []string, length int)
	walk = func(node *yaml.Node, parts []string, length int) {
		each(node, func(part string, f field) {
			parts, length := append(parts, part), length+len(part)
			if (best == "" || length <= len(best)+1) && fits(part, f) {
				path := strings.TrimPrefix(strings.Join(parts, ""), ".")
				if best == "" || len(path) < len(best) || len(path) == len(best) && path < best {
					best = path
				}
			}
			walk(f.value, parts, length)
		})
	}
	if p.root != nil {
		walk(p.root, nil, 0)
	}
	return best
}
