package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// feature is an entry of docs/features.yaml, which explains the fields.
type feature struct {
	Name, Page, Value, Needs, Example string
}

type featureFile struct {
	Features   []feature
	Comparison map[string]string
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(checkout, path))
	must.NoError(t, err)
	must.NoError(t, yaml.UnmarshalStrict(data, into), must.Sprint(path))
}

func features(t *testing.T) featureFile {
	t.Helper()
	var file featureFile
	decode(t, "docs/features.yaml", &file)
	return file
}

// onByDefault reports whether the chart's default of a value enables something: neither false nor empty.
func onByDefault(t *testing.T, value string) bool {
	t.Helper()
	values := map[string]any{}
	decode(t, "deployments/helm/dra-driver-rdma/values.yaml", &values)
	var at any = values
	for name := range strings.SplitSeq(value, ".") {
		parent, _ := at.(map[string]any)
		child, found := parent[name]
		must.True(t, found, must.Sprintf("docs/features.yaml: the chart has no value %q", value))
		at = child
	}
	if v := reflect.ValueOf(at); v.Kind() == reflect.Map || v.Kind() == reflect.Slice {
		return v.Len() > 0
	}
	return !reflect.ValueOf(at).IsZero()
}

// offByDefault lists the features with a switch that is off, by the chart.
func offByDefault(t *testing.T, all []feature) (off []feature) {
	t.Helper()
	for _, f := range all {
		if f.Value != "" && f.Value != "config" && !onByDefault(t, f.Value) {
			off = append(off, f)
		}
	}
	return off
}

// TestFeatures: README, the page of features and the comparison say what docs/features.yaml and the chart say.
func TestFeatures(t *testing.T) {
	file := features(t)
	off := offByDefault(t, file.Features)
	rows := "| you get | state | needs | example |\n|---|---|---|---|\n"
	for _, f := range file.Features {
		state, example := "on", ""
		switch {
		case f.Value == "config":
			state = "off: `config`"
		case slices.Contains(off, f):
			state = "off: `" + f.Value + "`"
		case f.Value != "":
			state = "on: `" + f.Value + "`"
		}
		if f.Example != "" {
			example = fmt.Sprintf("[%[1]s.yaml](../examples/%[1]s.yaml)", f.Example)
		}
		rows += fmt.Sprintf("| [%s](%s) | %s | %s | %s |\n", f.Name, f.Page, state, f.Needs, example)
	}
	generated(t, "docs/features.md", rows)

	list := ""
	for _, f := range off {
		list += fmt.Sprintf("- [%s](docs/%s): `%s`\n", f.Name, f.Page, f.Value)
	}
	generated(t, "README.md", list)
	compared(t, file.Comparison)
}

// block is what stands between two comments in a document.
var block = regexp.MustCompile(`(?s)(<!-- features.yaml: begin -->\n\n)(.*?)(\n<!-- features.yaml: end -->)`)

// generated compares the part of a document that is made from features.yaml, or writes it.
func generated(t *testing.T, path, part string) {
	t.Helper()
	path = filepath.Join(checkout, path)
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	must.True(t, block.Match(data), must.Sprintf("%s has no part for features.yaml", path))
	golden.File(t, path, block.ReplaceAll(data, []byte("${1}"+part+"${3}")))
}

// compared does the same with the last column of the table in the comparison.
func compared(t *testing.T, cells map[string]string) {
	t.Helper()
	path := filepath.Join(checkout, "docs", "comparison.md")
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	before, rest, _ := strings.Cut(string(data), "## Side by side\n")
	table, after, found := strings.Cut(rest, "\n## ")
	must.True(t, found, must.Sprint("docs/comparison.md has no section \"Side by side\" before another"))
	lines, seen := strings.Split(table, "\n"), map[string]bool{}
	for i, line := range lines {
		row := strings.Split(line, "|")
		if len(row) != 9 || strings.TrimSpace(row[1]) == "" || strings.HasPrefix(row[1], "---") {
			continue
		}
		name := strings.TrimSpace(row[1])
		test.NotEq(t, "", cells[name],
			test.Sprintf("docs/features.yaml has no cell for the row %q of docs/comparison.md", name))
		row[7], seen[name] = " "+cells[name]+" ", true
		lines[i] = strings.Join(row, "|")
	}
	if missing := len(cells) - len(seen); missing != 0 {
		t.Errorf("docs/comparison.md has no row for %d cells of docs/features.yaml; it has %v", missing,
			slices.Sorted(maps.Keys(seen)))
	}
	golden.File(t, path, []byte(before+"## Side by side\n"+strings.Join(lines, "\n")+"\n## "+after))
}

// TestExamples: each manifest of examples/ is on a page of the documents, and a test applies it as it is.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(checkout, "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	linked := map[string]string{}
	for path, page := range pages(t) {
		for _, link := range page.Links {
			linked[filepath.Base(link)] = path
		}
	}
	by := applied(t)
	for _, file := range files {
		base := filepath.Base(file)
		c := by[strings.TrimSuffix(base, ".yaml")]
		test.NotEq(t, "", c, test.Sprintf("no test applies examples/%s", base))
		test.NotEq(t, "", linked[base], test.Sprintf("no document links to examples/%s", base))
		t.Logf("examples/%s: applied in %s, shown in %s", base, c, linked[base])
	}
}

// Examples by name: in a call of a function that applies one, and in a list that a loop walks.
var (
	appliedExample = regexp.MustCompile(`\b(?:Example|Align|exampleClaim|apply|exampleTalks)\((?:t, )?"([a-z0-9-]+)"`)
	examplesOfLoop = regexp.MustCompile(`range \[\]string\{("[^}]*)\}`)
)

// applied lists the examples that tests on clusters apply, with the test's file.
func applied(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	must.NoError(t, filepath.WalkDir(filepath.Join(checkout, "test"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "gpudriver") { // it has no cluster
			return err
		}
		source := contents(t, strings.TrimPrefix(path, checkout+"/"))
		for _, m := range appliedExample.FindAllStringSubmatch(source, -1) {
			out[m[1]] = path
		}
		for _, m := range examplesOfLoop.FindAllStringSubmatch(source, -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				out[strings.Trim(name, `"`)] = path
			}
		}
		return nil
	}))
	return out
}

// TestFrontPages: README and the front page of the site show the same manifests, before and after.
func TestFrontPages(t *testing.T) {
	var tables []string
	for _, path := range []string{"README.md", "docs/index.md"} {
		data, err := os.ReadFile(filepath.Join(checkout, path))
		must.NoError(t, err)
		_, rest, _ := strings.Cut(string(data), "<table>")
		table, _, found := strings.Cut(rest, "</table>")
		must.True(t, found, must.Sprintf("%s has no table of manifests", path))
		tables = append(tables, table)
	}
	test.Eq(t, tables[1], tables[0], test.Sprint("README.md and docs/index.md differ"))
}
