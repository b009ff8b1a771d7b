package policy

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// positions are the places of fields, by path: rules[0].attributes["example.com/x"].
type positions map[string]position

type position struct {
	key   int // line of the field's name, or of the list's item
	value *yaml.Node
}

func newPositions(data []byte) positions {
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 {
		return nil // Decode says what is wrong
	}
	p := positions{}
	p.add("", root.Content[0])
	return p
}

// add does not follow aliases: what one stands for has the place of the alias.
func (p positions) add(path string, node *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			child := join(path, node.Content[i].Value)
			p[child] = position{node.Content[i].Line, node.Content[i+1]}
			p.add(child, node.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			child := fmt.Sprintf("%s[%d]", path, i)
			p[child] = position{item.Line, item}
			p.add(child, item)
		}
	}
}

var plainKey = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

// join makes the path of a field.
func join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// line returns the line of a field, or of the nearest one around it; 0 if there is none.
func (p positions) line(path string) int {
	for path != "" {
		if at, ok := p[path]; ok {
			return at.key
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// field returns the path of a field that stands in a line.
func (p positions) field(line int, key string) string {
	suffix := strings.TrimPrefix(join("x", key), "x")
	return cmp.Or(p.shortest(func(path string, at position) bool {
		return at.key == line && (path == key || strings.HasSuffix(path, suffix))
	}), key)
}

// text returns the path of what has a value in a line, of which the decoder may have
// kept the beginning only.
func (p positions) text(line int, value string) string {
	value = strings.TrimSuffix(value, "...")
	return p.shortest(func(_ string, at position) bool {
		return at.value.Line == line && strings.HasPrefix(at.value.Value, value)
	})
}

// shortest returns the shortest path that fits, "" if there is none.
func (p positions) shortest(fits func(path string, at position) bool) string {
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

// problems collects what is wrong with a file.
type problems struct {
	positions positions
	found     []problem
}

type problem struct {
	line int
	err  error
}

// add notes that a field is wrong.
func (p *problems) add(path, format string, args ...any) {
	line := p.positions.line(path)
	err := fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...))
	if line > 0 {
		err = fmt.Errorf("line %d: %w", line, err)
	}
	p.found = append(p.found, problem{line, err})
}

// join returns all that is wrong, in order of lines.
func (p *problems) join() error {
	slices.SortFunc(p.found, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.err.Error(), b.err.Error()))
	})
	var errs []error
	for _, found := range p.found {
		errs = append(errs, found.err)
	}
	return errors.Join(errs...)
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type \S+$`)
	wrongType    = regexp.MustCompile("^line (\\d+): cannot unmarshal !!\\w+(?: `(?s:(.*))`)? into (\\S+)$")
)

// explain words the errors of the YAML decoder in terms of the file instead of Go
// types. Errors of syntax are its own.
func explain(err error, p positions) error {
	var typeError *yaml.TypeError
	if !errors.As(err, &typeError) {
		return err
	}
	var errs []error
	for _, text := range typeError.Errors {
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("line %s: %s: unknown field", m[1], p.field(number(m[1]), m[2]))
		} else if m := wrongType.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("line %s: %s: want %s", m[1], p.text(number(m[1]), m[2]), wanted(m[3]))
			if m[2] != "" {
				text += fmt.Sprintf(", not %q", m[2])
			}
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the pattern has digits alone
	return n
}

// wanted words a Go type.
func wanted(goType string) string {
	switch {
	case goType == "int64":
		return "a whole number"
	case goType == "bool":
		return "true or false"
	case goType == "quantity":
		return "a number, as 4096, or one with a suffix, as 400G"
	case goType == "duration":
		return "a time, as 500ms or 30s"
	case goType == "string", goType == "resources.View":
		return "a text"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "fields"
}
