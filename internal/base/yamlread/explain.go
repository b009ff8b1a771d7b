package yamlread

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type \S+$`)
	wrongType    = regexp.MustCompile("^line (\\d+): cannot unmarshal !!\\w+(?: `(?s:(.*))`)? into (\\S+)$")
)

// Explain rewords the errors of the YAML decoder with lines and fields, and without Go types. It does not change
// syntax errors.
func (p *Positions) Explain(err error) error {
	typeError, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	return JoinTexts(typeError.Errors, func(text string) error {
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("line %s: %s: unknown field", m[1], p.Field(number(m[1]), m[2]))
		} else if m := wrongType.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("line %s: %s: want %s", m[1], p.Text(number(m[1]), m[2]), wanted(m[3]))
			if m[2] != "" {
				text += fmt.Sprintf(", not %q", m[2])
			}
		}
		return errors.New(text)
	})
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the pattern matches only digits
	return n
}

// wanted describes a Go type for users.
func wanted(goType string) string {
	switch goType {
	case "int64", "int", "uint32", "fs.FileMode":
		return "a whole number"
	case "bool":
		return "true or false"
	case "quantity":
		return "a number, as 4096, or one with a suffix, as 400G"
	case "duration":
		return "a time, as 500ms or 30s"
	case "string":
		return "a text"
	}
	if strings.HasPrefix(goType, "[]") {
		return "a list"
	}
	return "fields"
}
