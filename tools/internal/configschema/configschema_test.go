package configschema_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
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
	check := func(good bool, texts string) {
		for text := range strings.SplitSeq(texts, "|") {
			_, err := args.ParseSize(text)
			test.Eq(t, good, pattern.MatchString(text), test.Sprintf("the pattern takes %q", text))
			test.Eq(t, good, err == nil, test.Sprintf("the driver takes %q", text))
		}
	}
	check(true, "unlimited|1|8388608|1.5Gi|64Ki|4G|2E|1Ei|4g|4gb|4GB|4GiB|64m|4096b|7p|1K|1k")
	check(false, "0|0Gi|-1|4 g|4gg|4EB|4ei|1u|x|4ib||Unlimited")
}
