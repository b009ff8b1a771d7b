package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// What is not a spec of our kind is nobody's but its owner's, whatever its name: it is neither
// replaced nor removed.

// noSpecs are files that a user may have under a name that cdi-gen is given, by what says so.
var noSpecs = map[string]string{
	"has no cdiVersion":                "name: chart\nversion: 1.0.0\n",
	"has no kind":                      "cdiVersion: 0.3.0\n",
	"it is empty":                      "",
	"is a list or a single value":      "- a\n- b\n",
	"is not one document of JSON":      "{\"name\": ",
	"it has more than one document":    "cdiVersion: 0.3.0\nkind: rdma.dev/hca\n---\nkind: Secret\n",
	`mapping key "kind" already`:       "cdiVersion: 0.3.0\nkind: rdma.dev/hca\nkind: Secret\n",
	"is a spec of kind nvidia.com/gpu": gpuSpec,
	"is a spec of kind rdma.dev/claim": strings.Replace(gpuSpec, "nvidia.com/gpu", "rdma.dev/claim", 1),
}

// contents returns what stands below a directory, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		all[e.Name()] = e.Type().String()
		if link, err := os.Readlink(file); err == nil {
			all[e.Name()] += " " + link
		} else if e.Type().IsRegular() {
			data, err := os.ReadFile(file)
			must.NoError(t, err)
			all[e.Name()] += " " + string(data)
		}
	}
	return all
}

func sameContents(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for name, content := range before {
		test.Eq(t, content, after[name], test.Sprintf("%s: %s", what, name))
	}
}

// TestOutputOfNoSpec: with devices on the host and without, generate and remove leave a file
// alone that is no spec of ours, under the given name and beside it.
func TestOutputOfNoSpec(t *testing.T) {
	for says, content := range noSpecs {
		dir := t.TempDir()
		file, twin := filepath.Join(dir, "values.yaml"), filepath.Join(dir, "values.json")
		put(t, file, content, 0o644)
		put(t, twin, content, 0o600)
		before := contents(t, dir)
		for _, machine := range []string{"roce-lag", "none"} {
			for _, args := range [][]string{nil, {"--check"}} {
				generateTo(t, machine, file, args...).expect(t, exitUsage, `"`+file+`" `)
				generateTo(t, machine, file, args...).expect(t, exitUsage, says)
			}
		}
		cdigen(t, "remove", "--from", file).expect(t, exitUsage, says)
		cdigen(t, "watch", "--no-hook", "--host-root", host(t, "none"), "--to", file).expect(t, exitUsage, says)
		sameContents(t, says, before, contents(t, dir))

		// Under the name that a directory gets.
		own := filepath.Join(dir, "rdma.dev-hca.yaml")
		put(t, own, content, 0o644)
		generateTo(t, "roce-lag", dir).expect(t, exitUsage, says)
		generateTo(t, "none", dir).expect(t, exitUsage, says)
		cdigen(t, "remove", "--from", dir).expect(t, exitUsage, says)
		before = contents(t, dir)

		// As the twin only.
		put(t, filepath.Join(dir, "package.json"), content, 0o644)
		before["package.json"] = "---------- " + content
		generateTo(t, "none", filepath.Join(dir, "package.yaml")).expect(t, exitNothing, "no RDMA device")
		cdigen(t, "remove", "--from", filepath.Join(dir, "package.yaml")).
			expect(t, exitNothing, "no spec of kind rdma.dev/hca")
		generateTo(t, "roce-lag", filepath.Join(dir, "package.yaml")).expect(t, exitOK, "written")
		generateTo(t, "roce-lag", filepath.Join(dir, "package.yaml"), "--check").expect(t, exitOK, "fits the host")
		cdigen(t, "remove", "--from", filepath.Join(dir, "package.yaml")).expect(t, exitOK, "removed")
		sameContents(t, says, before, contents(t, dir))
	}
}
