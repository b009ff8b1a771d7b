package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// module and the packages of the types, as directories.
const module = "github.com/rdma-dev/dra-driver-rdma"

var packages = []string{"pkg/dra/policy", "internal/hostconfig"}

// configuration makes the schema of the configuration file as the chart has it: without
// apiVersion and kind.
func configuration() (*jsonschema.Schema, error) {
	r := &jsonschema.Reflector{
		FieldNameTag: "yaml", Anonymous: true, DoNotReference: true, RequiredFromJSONSchemaTags: true, Mapper: scalar,
	}
	for _, dir := range packages {
		if err := r.AddGoComments(module, "./"+dir, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read the comments of %s: %w (run in the root of the checkout)", dir, err)
		}
	}
	for name, comment := range r.CommentMap {
		r.CommentMap[name] = sentence(name, comment)
	}
	s := r.Reflect(&policy.File{})
	s.Version, s.Description = "", "The driver's configuration file, docs/policy.md."
	for _, name := range []string{"apiVersion", "kind"} {
		if _, had := s.Properties.Delete(name); !had {
			return nil, fmt.Errorf("the configuration has no %s", name)
		}
	}
	for name, change := range map[string]func(*jsonschema.Schema){"memlock": memlock, "env": variables, "taints": taints, "rules": attributes} {
		property, ok := s.Properties.Get(name)
		if !ok {
			return nil, fmt.Errorf("the configuration has no %s", name)
		}
		change(property)
	}
	return s, nil
}

// sentence makes the comment of a field a description: one line, without the field's Go name,
// which the reader of a file does not know.
func sentence(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	field := name[strings.LastIndex(name, ".")+1:]
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(text, field+verb); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return text
}

// scalar are the types that read themselves.
func scalar(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[policy.Quantity](), reflect.TypeFor[*policy.Quantity]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "1"},
			{Type: "string", Pattern: "^[0-9]*[1-9][0-9]*([kMGTPE]|[KMGTPE]i)?$"},
		}}
	case reflect.TypeFor[policy.Duration](), reflect.TypeFor[*policy.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: "^([0-9]+([.][0-9]+)?(ms|s|m|h))+$"}
	}
	return nil
}

// memlock is text in the type; YAML has whole numbers for it too.
func memlock(s *jsonschema.Schema) {
	s.Type = ""
	s.AnyOf = []*jsonschema.Schema{
		{Type: "integer", Minimum: "1"},
		{Type: "string", Pattern: "^(unlimited|[0-9]*[1-9][0-9]*([kKMGT]|[KMGT]i)?)$"},
	}
}

func variables(s *jsonschema.Schema) { s.PropertyNames = &jsonschema.Schema{Pattern: "^[^=]+$"} }

// attributes have one value each.
func attributes(rules *jsonschema.Schema) {
	list, _ := rules.Items.Properties.Get("attributes")
	list.AdditionalProperties.MinProperties, list.AdditionalProperties.MaxProperties = new(uint64(1)), new(uint64(1))
}

// taints have the names and effects that the driver knows.
func taints(s *jsonschema.Schema) {
	var names []string
	for _, c := range health.Conditions() {
		names = append(names, string(c))
	}
	s.PropertyNames = &jsonschema.Schema{Pattern: `^(rdma\.dev/)?(` + strings.Join(names, "|") + ")$"}
	effect := &jsonschema.Schema{}
	for _, e := range health.Effects() {
		effect.Enum = append(effect.Enum, e)
	}
	s.AdditionalProperties = effect
}
