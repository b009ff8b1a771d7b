package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// listCodes are the exit codes of list on the machines where it is not 0.
var listCodes = map[string]int{"none": exitNothing, "empty-classes": exitNothing, "misbehaving": exitPartial}

// TestListTable: what people see of each machine.
func TestListTable(t *testing.T) {
	for _, name := range fixture.Names() {
		r := cdigen(t, "list", "--host-root", host(t, name))
		if r.code != listCodes[name] || (r.stderr == "") != (r.code == exitOK) {
			t.Errorf("%s: exit code %d, standard error %q; want %d", name, r.code, r.stderr, listCodes[name])
		}
		checkGolden(t, filepath.Join("list", name+".txt"), r.stdout)
		for line := range strings.Lines(r.stdout) {
			test.Eq(t, strings.TrimSuffix(line, "\n"), strings.TrimRight(line, " \n"),
				test.Sprintf("%s: %q ends in a blank", name, line))
		}
	}
}

// TestListFormats: what programs read. JSON and YAML say the same.
func TestListFormats(t *testing.T) {
	for _, name := range []string{"none", "roce-lag", "mlx5-sf", "soft-pci", "misbehaving"} {
		root := host(t, name)
		results := map[string]string{}
		for _, format := range []string{"json", "yaml"} {
			r := cdigen(t, "list", "--host-root", root, "-o", format)
			test.Eq(t, listCodes[name], r.code, test.Sprintf("%s: exit code", name))
			checkGolden(t, filepath.Join("list", name+"."+format), r.stdout)
			results[format] = r.stdout
		}
		var fromJSON, fromYAML any
		test.NoError(t, json.Unmarshal([]byte(results["json"]), &fromJSON))
		test.NoError(t, yaml.Unmarshal([]byte(results["yaml"]), &fromYAML))
		test.True(t, reflect.DeepEqual(fromJSON, fromYAML), test.Sprintf("%s: JSON and YAML differ", name))
	}
}
