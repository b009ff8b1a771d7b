package policy

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Fields lists the fields of the File as paths, in their order: rules[].shares. A
// field with free names has * for them.
func Fields() []string { return fields("", reflect.TypeFor[File]()) }

func fields(prefix string, t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch inner := field.Type; {
		case name == "-":
		case options == "inline":
			out = append(out, fields(prefix, inner)...)
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			out = append(out, prefix+name)
			out = append(out, fields(prefix+name+"[].", inner.Elem())...)
		case inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct:
			out = append(out, prefix+name)
			out = append(out, fields(prefix+name+".*.", inner.Elem())...)
		case inner.Kind() == reflect.Struct && !reflect.PointerTo(inner).Implements(reflect.TypeFor[yaml.Unmarshaler]()):
			out = append(out, prefix+name)
			out = append(out, fields(prefix+name+".", inner)...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}
