package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// rows writes a row for each field of an object, and of what is in it.
func rows(w io.Writer, path string, s *jsonschema.Schema) error {
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		name, field := path+p.Key, p.Value
		meaning, byDefault := split(field.Description)
		if slices.Contains(s.Required, p.Key) {
			byDefault = "required"
		}
		value, err := value(field)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", name, value, cell(byDefault), cell(meaning)); err != nil {
			return err
		}
		for suffix, inner := range map[string]*jsonschema.Schema{".": field, "[].": field.Items, ".*.": field.AdditionalProperties} {
			if inner == nil || inner.Properties == nil {
				continue
			}
			if err := rows(w, name+suffix, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// split takes the default off a description.
func split(description string) (meaning, byDefault string) {
	meaning, byDefault, _ = strings.Cut(description, " Defaults to ")
	return meaning, strings.TrimSuffix(byDefault, ".")
}

// value says what a field holds.
func value(s *jsonschema.Schema) (string, error) {
	switch {
	case s.AnyOf != nil && strings.Contains(s.AnyOf[1].Pattern, "inherit"):
		return "`unlimited`, `inherit`, or a size", nil
	case s.AnyOf != nil && strings.Contains(s.AnyOf[1].Pattern, "unlimited"):
		return "`unlimited`, or a size", nil
	case s.AnyOf != nil:
		return "quantity", nil
	case strings.Contains(s.Pattern, "(ms|s|m|h)"):
		return "duration", nil
	case s.Pattern == "^/":
		return "absolute path", nil
	case s.Enum != nil:
		return words(s.Enum), nil
	}
	switch s.Type {
	case "array":
		return "list of " + plural[s.Items.Type], nil
	case "object":
		if of := s.AdditionalProperties; of != nil && of.Enum != nil {
			return "map of " + words(of.Enum), nil
		} else if of != nil && s.Properties == nil {
			return "map of " + plural[of.Type], nil
		}
		return "object", nil
	case "integer":
		return bounds(s), nil
	case "string":
		return "text", nil
	case "boolean":
		return "`true` or `false`", nil
	}
	return "", fmt.Errorf("tools/reference has no word for the type %q", s.Type)
}

var plural = map[string]string{"string": "texts", "object": "objects", "integer": "numbers"}

func words(values []any) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprintf("`%v`", v))
	}
	return strings.Join(list, ", ")
}

func bounds(s *jsonschema.Schema) string {
	switch {
	case s.Minimum != "" && s.Maximum != "":
		return fmt.Sprintf("%s to %s", s.Minimum, s.Maximum)
	case s.Minimum != "":
		return fmt.Sprintf("number from %s on", s.Minimum)
	}
	return "number"
}

// cell keeps a text in one cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
