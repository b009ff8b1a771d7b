package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

var codeSpan = regexp.MustCompile("`([^`]+)`")

// TestPlaces: the table of architecture.md that leads a stranger through the code names files that are there, and
// functions that these files declare.
func TestPlaces(t *testing.T) {
	page, err := os.ReadFile("../../docs/dev/architecture.md")
	must.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "\n## Where things happen\n")
	must.True(t, ok, must.Sprint("the page has no section \"Where things happen"))
	functions := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		source := ""
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			if strings.Contains(m[1], "*") {
				continue
			}
			if strings.Contains(m[1], "/") {
				data, err := os.ReadFile(filepath.Join("../..", m[1]))
				test.NoError(t, err, test.Sprintf("%v: %s", err, line))
				source = string(data)
				continue
			}
			functions++
			test.True(t, regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+regexp.QuoteMeta(m[1])+`[\[(]`).MatchString(source),
				test.Sprintf("the file before it does not declare %s: %s", m[1], line))
		}
	}
	test.GreaterEq(t, 15, functions, test.Sprintf("%d functions were found: has the page another form?", functions))
}

// TestLayout: each package stands in layout.md, or the one that it is below.
func TestLayout(t *testing.T) {
	page, err := os.ReadFile("../../docs/dev/layout.md")
	must.NoError(t, err)
	for _, pattern := range []string{"cmd/*", "pkg/*", "pkg/dra/*", "internal/*", "internal/*/*"} {
		dirs, err := filepath.Glob("../../" + pattern)
		if err != nil || len(dirs) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, dir := range dirs {
			sources, err := filepath.Glob(dir + "/*.go")
			must.NoError(t, err)
			path := strings.TrimPrefix(dir, "../../")
			parent := filepath.Dir(path)
			if len(sources) > 0 && !strings.Contains(string(page), "    "+path+" ") &&
				!(parent != "internal" && strings.Contains(string(page), "    "+parent+" ") && strings.Contains(string(page), filepath.Base(path)+":")) {
				t.Errorf("docs/dev/layout.md has no line of package %s", path)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^    ((?:cmd|pkg|internal)/\S+)`).FindAllStringSubmatch(string(page), -1) {
		_, err := os.Stat(filepath.Join("../..", m[1]))
		test.NoError(t, err, test.Sprint("docs/dev/layout.md"))
	}
}
