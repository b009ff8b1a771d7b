package importrules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
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

const (
	module  = "github.com/rdma-dev/dra-driver-rdma"
	planted = module + "/internal/test/importrules/testdata/planted/"
)

var own = regexp.MustCompile(`([\[ ])\./`)

// rules are those of testdata/rules.yaml.
func rules(t *testing.T) []importrules.Rule {
	t.Helper()
	data, err := os.ReadFile("testdata/rules.yaml")
	must.NoError(t, err)
	var out []importrules.Rule
	must.NoError(t, yamlread.Config.Decode(own.ReplaceAll(data, []byte("${1}"+module+"/")), &out))
	for i, r := range out {
		if r.Below != nil {
			out[i].Imports, out[i].Except = []string{module + "/..."}, slices.Concat(r.Below, r.Of)
		}
	}
	return out
}

// TestRules: the packages of the module keep the rules.
func TestRules(t *testing.T) {
	graph := wholeModule(t)
	for _, rule := range rules(t) {
		violations, err := rule.Violations(graph)
		must.NoError(t, err)
		for _, violation := range violations {
			t.Errorf("%s: %s", rule.Name, violation)
		}
		missing(t, graph, rule.Name, rule.Of, rule.But)
		if slices.Contains(rule.Links, "...") { // Except are all that they link
			missing(t, load(t, rule.Of...), rule.Name, rule.Except)
		}
	}
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
	var patterns, names []string
	for _, d := range dirs {
		patterns, names = append(patterns, planted+d.Name()), append(names, d.Name())
	}
	graph := load(t, patterns...)
	for _, rule := range rules(t) {
		rule.Of, rule.But = []string{planted + rule.Name}, nil
		got, err := rule.Violations(graph)
		must.NoError(t, err)
		want, err := os.ReadFile(filepath.Join("testdata/planted", rule.Name, "want.txt"))
		must.NoError(t, err)
		text := strings.ReplaceAll(strings.Join(got, "\n")+"\n", planted, "")
		text = strings.ReplaceAll(text, ": "+rule.Why+"\n", "\n")
		test.Eq(t, string(want), text, test.Sprint(rule.Name))
		names = slices.DeleteFunc(names, func(n string) bool { return n == rule.Name })
	}
	test.SliceEmpty(t, names, test.Sprint("planted for no rule"))
}

// TestLarge: a type of the list must not grow, and leaves the list when it is not too large any more.
func TestLarge(t *testing.T) {
	graph := load(t, planted+"methods")
	for name, tc := range map[string]struct {
		most, listed int
		want         []string
	}{
		"as large as listed":  {26, 28, nil},
		"smaller than listed": {26, 30, nil},
		"grown":               {26, 27, []string{"grew from 27 methods to 28"}},
		"not large any more":  {28, 30, []string{"has 28 methods: take it off the list"}},
	} {
		listed := map[string]int{planted + "methods.embedding": tc.listed}
		rule := importrules.Rule{Of: []string{"..."}, Most: tc.most, Large: listed}
		got, err := rule.Violations(graph)
		must.NoError(t, err)
		test.SliceLen(t, len(tc.want), got, test.Sprint(name))
		for i := range tc.want {
			test.StrContains(t, got[i], tc.want[i], test.Sprint(name))
		}
	}
}

// TestFree: But and Except make packages free.
func TestFree(t *testing.T) {
	graph := load(t, planted+"rdma")
	for name, tc := range map[string]struct {
		rule importrules.Rule
		want int
	}{
		"none":   {importrules.Rule{}, 1},
		"But":    {importrules.Rule{But: []string{"..."}}, 0},
		"Except": {importrules.Rule{Except: []string{"log/..."}}, 0},
	} {
		tc.rule.Of, tc.rule.Links = []string{"..."}, []string{"log"}
		got, err := tc.rule.Violations(graph)
		must.NoError(t, err)
		test.SliceLen(t, tc.want, got, test.Sprint(name))
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

// TestLinked: what each program links is a golden file. The diff of a change shows what it makes programs carry.
func TestLinked(t *testing.T) {
	for _, program := range []string{"cdi-gen", "dra-driver", "kubectl-rdma", "rdma-hook"} {
		graph := load(t, "./cmd/"+program)
		golden.Bytes(t, "linked/"+program+".txt", []byte(strings.Join(graph.Linked(), "\n")+"\n"))
	}
}
