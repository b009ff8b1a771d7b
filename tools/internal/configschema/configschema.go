// Package configschema makes JSON schemas of the types of configuration files and of the
// parameters of claims and classes, with the comments of their fields as descriptions: for
// the chart's values (tools/schema) and the reference (tools/reference).
//
// It reads the sources of the checkout that it runs in the root of.
package configschema

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// module and the packages of the types, as directories.
const module = "github.com/rdma-dev/dra-driver-rdma"

var packages = []string{"pkg/dra/policy", "internal/hostconfig", "pkg/api/v1alpha1"}

// HCAConfig makes the schema of what claims say.
func HCAConfig() (*jsonschema.Schema, error) { return reflected(&v1alpha1.HCAConfig{}, "json") }

// HCAClassConfig makes the schema of what classes say.
func HCAClassConfig() (*jsonschema.Schema, error) {
	s, err := reflected(&v1alpha1.HCAClassConfig{}, "json")
	if err != nil {
		return nil, err
	}
	if allow, ok := s.Properties.Get("allow"); ok {
		if highest, ok := allow.Properties.Get("memlockMax"); ok {
			memlock(highest) // "inherit" bounds nothing
			return s, nil
		}
	}
	return nil, fmt.Errorf("the configuration of a class has no allow.memlockMax")
}

// DriverConfig makes the schema of the driver's policy.
func DriverConfig() (*jsonschema.Schema, error) {
	s, err := reflected(&policy.File{}, "yaml")
	if err != nil {
		return nil, err
	}
	for name, change := range map[string]func(*jsonschema.Schema){
		"memlock": memlock, "env": variables, "taints": taints, "rules": rules, "ipam": plugins,
	} {
		property, ok := s.Properties.Get(name)
		if !ok {
			return nil, fmt.Errorf("the configuration has no %s", name)
		}
		change(property)
	}
	s.If = object("rules", &jsonschema.Schema{Contains: object("publish", &jsonschema.Schema{Const: "both"})})
	s.Then = object("partitioning", &jsonschema.Schema{Const: true})
	return s, nil
}

// reflected makes the schema of a type, whose fields are called by a tag, without
// apiVersion and kind.
func reflected(of any, tag string) (*jsonschema.Schema, error) {
	r := &jsonschema.Reflector{
		FieldNameTag: tag, Anonymous: true, DoNotReference: true, RequiredFromJSONSchemaTags: true, Mapper: scalar,
	}
	for _, dir := range packages {
		if err := r.AddGoComments(module, "./"+dir, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read the comments of %s: %w (run in the root of the checkout)", dir, err)
		}
	}
	for name, comment := range r.CommentMap {
		r.CommentMap[name] = sentence(name, comment)
	}
	s := r.Reflect(of)
	s.Version = ""
	for _, name := range []string{"apiVersion", "kind"} {
		if _, had := s.Properties.Delete(name); !had {
			return nil, fmt.Errorf("%T has no %s", of, name)
		}
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

// scalar are the types that read themselves, and those whose values a tag has no room for.
func scalar(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[policy.Quantity](), reflect.TypeFor[*policy.Quantity](), reflect.TypeFor[v1alpha1.Quantity]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "1"},
			{Type: "string", Pattern: "^[0-9]*[1-9][0-9]*([kMGTPE]|[KMGTPE]i)?$"},
		}}
	case reflect.TypeFor[v1alpha1.Libraries]():
		words := &jsonschema.Schema{Type: "string"}
		for _, w := range v1alpha1.EnvWords {
			words.Enum = append(words.Enum, w)
		}
		return &jsonschema.Schema{Type: "array", Items: words, UniqueItems: true}
	case reflect.TypeFor[v1alpha1.Memlock]():
		return locked("unlimited|inherit")
	case reflect.TypeFor[policy.Duration](), reflect.TypeFor[*policy.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: "^([0-9]+([.][0-9]+)?(ms|s|m|h))+$"}
	}
	return nil
}

// memlock is text in the type; YAML has whole numbers for it too.
func memlock(s *jsonschema.Schema) { s.Type, s.AnyOf = "", locked("unlimited").AnyOf }

// locked is a limit of locked memory: one of some words, or bytes.
func locked(words string) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: "1"},
		{Type: "string", Pattern: LockedPattern(words)},
	}}
}

// LockedPattern matches one of some words, or a size that package bytesize reads. Not all: the driver alone knows an
// exponent, and whether the bytes are whole and few enough.
func LockedPattern(words string) string {
	return "^(" + words + "|[0-9]*[1-9][0-9]*([.][0-9]+)?([kKmMgGtTpP]([iI]?[bB]?)|[bB]|E|Ei)?)$"
}

func variables(s *jsonschema.Schema) { s.PropertyNames = &jsonschema.Schema{Pattern: "^[^=]+$"} }

// object is an object that has a field of a schema.
func object(field string, of *jsonschema.Schema) *jsonschema.Schema {
	properties := jsonschema.NewProperties()
	properties.Set(field, of)
	return &jsonschema.Schema{Properties: properties, Required: []string{field}}
}

// rules have shares and totals only where claims share. The word is of draft 7, which helm reads.
func rules(s *jsonschema.Schema) {
	shared := object("publish", &jsonschema.Schema{Enum: []any{"shared", "both"}})
	needs := map[string]*jsonschema.Schema{}
	for _, field := range []string{"shares", "defaultShares", "bandwidth", "handles", "objects"} {
		needs[field] = shared
	}
	s.Items.Extras = map[string]any{"dependencies": needs}
	attributes(s.Items)
}

// attributes have one value each.
func attributes(rule *jsonschema.Schema) {
	list, _ := rule.Properties.Get("attributes")
	list.AdditionalProperties.MinProperties, list.AdditionalProperties.MaxProperties = new(uint64(1)), new(uint64(1))
}

// plugins have any field in an entry with a type: those of a CNI plugin. JSON schemas of the chart cannot say which
// fields depend on the type, so the driver refuses other fields of an entry without a type. The driver alone knows all
// wrong addresses; the schema refuses what is no address at first sight.
func plugins(ipam *jsonschema.Schema) {
	entry := ipam.AdditionalProperties
	entry.AdditionalProperties = nil
	for name, pattern := range map[string]string{"subnet": network, "clusterCIDR": network, "gateway": address} {
		field, _ := entry.Properties.Get(name)
		if field.Items != nil {
			field = field.Items
		}
		field.Pattern = "^" + pattern + "$"
	}
}

// IP addresses and networks, by their characters.
const (
	address = `([0-9]+[.][0-9.]+|[0-9a-fA-F]*:[0-9a-fA-F:.]+)`
	network = address + `/[0-9]{1,3}`
)

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
