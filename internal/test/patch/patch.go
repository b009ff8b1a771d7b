// Package patch decodes the YAML documents of tests after changes, so that a table has of each case only what differs.
package patch

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"github.com/tidwall/sjson"
	"sigs.k8s.io/yaml"
)

// Patches are what is set at paths of a document, as those of [sjson.Set]. Null removes what is there.
type Patches map[string]any

// File decodes a YAML file after some patches, which are made one after the other. An unknown field is an error.
func File(t testing.TB, path string, to any, some ...Patches) {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	document, err := yaml.YAMLToJSONStrict(data)
	must.NoError(t, err, must.Sprint(path))
	for _, patches := range some {
		for _, at := range slices.Sorted(maps.Keys(patches)) {
			if patches[at] == nil {
				document, err = sjson.DeleteBytes(document, at)
			} else {
				document, err = sjson.SetBytes(document, at, patches[at])
			}
			must.NoError(t, err, must.Sprintf("%s: %s", path, at))
		}
	}
	must.NoError(t, yaml.UnmarshalStrict(document, to), must.Sprint(path))
}
