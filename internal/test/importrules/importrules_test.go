package importrules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/importrules"
)

// load loads packages, once for each set.
func load(t *testing.T, patterns ...string) importrules.Graph {
	t.Helper()
	graph, err := importrules.Load("../../..", patterns...)
	must.NoError(t, err)
	return graph
}

var whole = sync.OnceValues(func() (importrules.Graph, error) { return importrules.Load("../../..", "./...") })

func wholeModule(t *testing.T) importrules.Graph {
	t.Helper()
	graph, err := whole()
	must.NoError(t, err)
	return graph
}

// TestBans: the packages of the module keep the rules on imports.
func TestBans(t *testing.T) {
	graph := wholeModule(t)
	for _, ban := range slices.Concat(floors, bans) {
		for _, violation := range ban.Violations(graph) {
			t.Errorf("%s: %s", ban.Name, violation)
		}
		missing(t, graph, ban.Name, ban.Of, ban.But)
	}
}

// TestCalls: the packages of the module keep the rules on functions.
func TestCalls(t *testing.T) {
	graph := wholeModule(t)
	for _, rule := range calls {
		violations, err := rule.Violations(graph)
		must.NoError(t, err)
		for _, violation := range violations {
			t.Errorf("%s: %s", rule.Name, violation)
		}
		missing(t, graph, rule.Name, rule.Of, rule.But)
	}
}

// TestMethods: no type of the product does everything.
func TestMethods(t *testing.T) {
	graph := wholeModule(t)
	violations, err := methods.Violations(graph)
	must.NoError(t, err)
	for _, violation := range violations {
		t.Error(violation)
	}
	missing(t, graph, methods.Name, methods.Of, methods.But)
}

// missing reports packages that a rule names and that are no more: a rule on
// nothing is kept by everyone.
func missing(t *testing.T, graph importrules.Graph, rule string, patterns ...[]string) {
	t.Helper()
	for _, pattern := range slices.Concat(patterns...) {
		prefix := strings.TrimSuffix(pattern, "/...")
		found := false
		for path := range graph {
			found = found || path == prefix || prefix != pattern && strings.HasPrefix(path, prefix+"/")
		}
		if !found && pattern != "..." {
			t.Errorf("%s: there is no package %s", rule, pattern)
		}
	}
}

// TestPlanted: each rule finds the violation that was made for it, and in it
// nothing else.
func TestPlanted(t *testing.T) {
	dirs, err := os.ReadDir("testdata/planted")
	must.NoError(t, err)
	var planted, names []string
	for _, d := range dirs {
		planted = append(planted, "./internal/test/importrules/testdata/planted/"+d.Name())
		names = append(names, d.Name())
	}
	graph := load(t, planted...)
	check := func(name, why string, got []string) {
		want, err := os.ReadFile(filepath.Join("testdata/planted", name, "want.txt"))
		must.NoError(t, err)
		text := strings.ReplaceAll(strings.Join(got, "\n")+"\n", module+"/internal/test/importrules/testdata/planted/", "")
		text = strings.ReplaceAll(text, ": "+why+"\n", "\n")
		test.Eq(t, string(want), text, test.Sprintf("%s", name))
		names = slices.DeleteFunc(names, func(n string) bool { return n == name })
	}
	for _, ban := range slices.Concat(floors, bans) {
		ban.Of = []string{module + "/internal/test/importrules/testdata/planted/" + ban.Name}
		check(ban.Name, ban.Why, ban.Violations(graph))
	}
	for _, rule := range calls {
		rule.Of = []string{module + "/internal/test/importrules/testdata/planted/" + rule.Name}
		violations, err := rule.Violations(graph)
		must.NoError(t, err)
		check(rule.Name, rule.Why, violations)
	}
	rule := methods
	rule.Of = []string{module + "/internal/test/importrules/testdata/planted/" + rule.Name}
	rule.But = nil
	violations, err := rule.Violations(graph)
	must.NoError(t, err)
	check(rule.Name, rule.Why, violations)
	test.Eq(t, 0, len(names), test.Sprintf("planted for no rule: %s", names))
}

// TestFree: But and Except make packages free.
func TestFree(t *testing.T) {
	graph := load(t, "./internal/test/importrules/testdata/planted/rdma")
	ban := importrules.Ban{Of: []string{"..."}, Links: []string{"log"}}
	if got := ban.Violations(graph); len(got) != 1 {
		t.Errorf("violations %s; want one", got)
	}
	ban.But = ban.Of
	if got := ban.Violations(graph); len(got) != 0 {
		t.Errorf("a free package breaks the rule: %s", got)
	}
	ban.But, ban.Except = nil, []string{"log/..."}
	if got := ban.Violations(graph); len(got) != 0 {
		t.Errorf("use of a free package breaks the rule: %s", got)
	}
}

// TestSizes: functions that fit on a screen, files that tell one story.
func TestSizes(t *testing.T) {
	const maxP90, maxFile = 35, 400
	sizes, err := importrules.Measure(wholeModule(t))
	must.NoError(t, err)
	p90 := importrules.Percentile(sizes.Functions, 90)
	t.Logf("%d functions: median %d lines, p90 %d, longest %d (%s); longest file %d (%s)",
		len(sizes.Functions), importrules.Percentile(sizes.Functions, 50), p90,
		sizes.Functions[0].Lines, sizes.Functions[0].Name, sizes.Files[0].Lines, sizes.Files[0].Name)
	test.LessEq(t, maxP90, p90,
		test.Sprintf("one function in ten has more than %d lines; want at most %d. The longest: %+v", p90, maxP90, sizes.Functions[:10]))
	for _, f := range sizes.Files {
		test.LessEq(t, maxFile, f.Lines, test.Sprintf("%s has %d lines; want at most %d", f.Name, f.Lines, maxFile))
	}
}

// TestPackageComments: every package says what it is for.
func TestPackageComments(t *testing.T) {
	for _, p := range wholeModule(t).Own() {
		want := "Package " + p.Name + " "
		if p.Name == "main" { // "Command image ..." or "Image ..."
			name := filepath.Base(p.ImportPath)
			want = strings.ToUpper(name[:1]) + name[1:] + " "
			p.Doc = strings.TrimPrefix(p.Doc, "Command ")
		}
		if len(p.GoFiles) > 0 && !strings.HasPrefix(strings.ToUpper(p.Doc), strings.ToUpper(want)) {
			t.Errorf("package %s: its comment starts with %.40q; want %q", p.ImportPath, p.Doc, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var sizes []importrules.Size
	test.Eq(t, 0, importrules.Percentile(sizes, 90), test.Sprint("of nothing"))
	for lines := 20; lines > 0; lines-- {
		sizes = append(sizes, importrules.Size{Lines: lines})
	}
	for p, want := range map[int]int{100: 20, 90: 18, 50: 10} {
		test.Eq(t, want, importrules.Percentile(sizes, p), test.Sprintf("p%d of 1 to 20", p))
	}
}

func TestLoadFails(t *testing.T) {
	_, err := importrules.Load("../../..", "./no/such/package")
	test.ErrorContains(t, err, "no/such/package")
}
