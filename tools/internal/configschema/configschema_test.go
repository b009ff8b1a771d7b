package configschema_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/tools/internal/configschema"
)

// TestDescribed: every field has a description that begins with no name of Go, and objects
// take no other fields.
func TestDescribed(t *testing.T) {
	t.Chdir("../../..")
	for kind, schema := range map[string]func() (*jsonschema.Schema, error){
		"DriverConfig": configschema.DriverConfig, "HCAConfig": configschema.HCAConfig, "HCAClassConfig": configschema.HCAClassConfig,
	} {
		s, err := schema()
		must.NoError(t, err)
		raw, err := json.Marshal(s)
		must.NoError(t, err)
		var tree map[string]any
		must.NoError(t, json.Unmarshal(raw, &tree))
		properties(t, kind, tree)
	}
}

// properties looks at all fields below a schema.
func properties(t *testing.T, path string, s map[string]any) {
	list, _ := s["properties"].(map[string]any)
	if list != nil && s["additionalProperties"] != false && path != "DriverConfig.ipam[]" { // has those of CNI plugins
		t.Errorf("%s takes any field", path)
	}
	for name, p := range list {
		field, _ := p.(map[string]any)
		text, _ := field["description"].(string)
		if first, _, _ := strings.Cut(text, " "); !strings.HasSuffix(text, ".") || strings.EqualFold(first, name) {
			t.Errorf("%s.%s: description %q", path, name, text)
		}
		properties(t, path+"."+name, field)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := s[key].(map[string]any); ok {
			properties(t, path+"[]", inner)
		}
	}
}

// TestLockedPattern: the chart refuses a size only if the driver does.
func TestLockedPattern(t *testing.T) {
	pattern := regexp.MustCompile(configschema.LockedPattern("inherit|unlimited"))
	for text, good := range map[string]bool{
		"unlimited": true, "1": true, "8388608": true, "1.5Gi": true, "64Ki": true, "4G": true, "2E": true, "1Ei": true,
		"4g": true, "4gb": true, "4GB": true, "4GiB": true, "64m": true, "4096b": true, "7p": true, "1K": true, "1k": true,
		"0": false, "0Gi": false, "-1": false, "4 g": false, "4gg": false, "4EB": false, "4ei": false, "1u": false, "x": false,
		"4ib": false, "": false, "Unlimited": false,
	} {
		_, err := args.ParseSize(text)
		if matches := pattern.MatchString(text); matches != good || (err == nil) != good {
			t.Errorf("%q: the pattern takes it: %v, the driver: %v; want %v", text, matches, err, good)
		}
	}
}
