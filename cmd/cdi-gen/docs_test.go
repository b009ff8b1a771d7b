package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostconfig"
)

// TestDocs: docs/cdi-gen.md knows every verb, and its example is what generate prints. Flags are in the reference page,
// which is generated.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/cdi-gen.md")
	must.NoError(t, err)
	docs := string(b)
	for _, cmd := range newRoot().Commands() {
		// doctor has a page of its own.
		if name := cmd.Name(); !cmd.Hidden && name != "doctor" && name != "exit-codes" && name != "topology" &&
			name != "help" && name != "completion" &&
			!strings.Contains(docs, "| `"+name) {
			t.Errorf("docs/cdi-gen.md has no line on %s", name)
		}
	}
	_, example, _ := strings.Cut(docs, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	r := cdigen(t, "generate", "--host-root", host(t, "roce-lag"), "--no-hook", "--no-all", "--names", "ibdev")
	test.Eq(t, example, r.stdout, test.Sprint("the example in docs/cdi-gen.md"))
}

// TestDocsConfig: the configuration file in docs/cdi-gen.md is valid and has every field.
func TestDocsConfig(t *testing.T) {
	b, err := os.ReadFile("../../docs/cdi-gen.md")
	must.NoError(t, err)
	_, text, _ := strings.Cut(string(b), "\n```yaml\napiVersion:")
	text, _, _ = strings.Cut("apiVersion:"+text, "```")
	config, err := hostconfig.Parse([]byte(text))
	must.NoError(t, err, must.Sprintf("the configuration file in docs/cdi-gen.md: %v\n%s", err, text))
	for _, v := range []reflect.Value{reflect.ValueOf(*config), reflect.ValueOf(config.Container)} {
		for i := range v.NumField() {
			test.False(t, v.Field(i).IsZero(),
				test.Sprintf("the configuration file in docs/cdi-gen.md has no %s", v.Type().Field(i).Name))
		}
	}
}
