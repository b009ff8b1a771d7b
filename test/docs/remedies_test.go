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

var (
	findingInCode = regexp.MustCompile(`(?:[Rr]eason:|f\.Reason(?:, f\.Message)? =)\s+"([A-Z]\w+)"`)
	warningRow    = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| Warning \\|")
	notesCommand  = regexp.MustCompile(`(?m)^  (kubectl|helm)(?: -n \{\{.*?\}\})? ([a-z]+)(?: ([a-z]+))?`)
	codeWord      = regexp.MustCompile("`(\\w+)`")
)

// remedy is a row of docs/dev/remedies.md.
type remedy struct{ what, test string }

// TestRemediesAreTested: whatever tells somebody to do something has a row in docs/dev/remedies.md, with a test that is
// there, or the reason why none is.
func TestRemediesAreTested(t *testing.T) {
	declared := declaredTests(t, "../..")
	rows, known := remedies(t), map[string]bool{}
	for _, row := range rows {
		known[row.what] = true
		for _, word := range codeWord.FindAllStringSubmatch(row.what, -1) {
			known[word[1]] = true
		}
		names := namedTest.FindAllStringSubmatch(row.test, -1)
		if len(names) == 0 && !strings.HasPrefix(row.test, "no test: ") {
			t.Errorf("%s: neither a test nor a reason: %s", row.what, row.test)
		}
		for _, name := range names {
			test.True(t, declared[name[1]], test.Sprintf("%s: there is no test %s", row.what, name[1]))
		}
	}
	wanted := told(t)
	test.GreaterEq(t, 100, len(wanted),
		test.Sprintf("only %d remedies were found: have the pages another form?", len(wanted)))
	for _, what := range wanted {
		test.True(t, known[what], test.Sprintf("docs/dev/remedies.md has no row for %q", what))
	}
}

func remedies(t *testing.T) (out []remedy) {
	for line := range strings.Lines(contents(t, "docs/dev/remedies.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == 3 && !strings.HasPrefix(cells[0], "---") && strings.TrimSpace(cells[2]) != "test" {
			out = append(out, remedy{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[2])})
		}
	}
	return out
}

// told are the findings, warnings, symptoms, sections and commands that need a row.
func told(t *testing.T) (out []string) {
	files, err := filepath.Glob("../../internal/inspect/*.go")
	must.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range findingInCode.FindAllStringSubmatch(contents(t, strings.TrimPrefix(file, "../../")), -1) {
			out = append(out, m[1])
		}
	}
	for _, m := range warningRow.FindAllStringSubmatch(contents(t, "docs/reference/events.md"), -1) {
		out = append(out, m[1])
	}
	_, held, _ := strings.Cut(contents(t, "docs/restarts.md"), "## What holds an HCA")
	held, _, _ = strings.Cut(held, "\n## ")
	out = append(out, firstCells(held)...)
	out = append(out, firstCells(contents(t, "docs/troubleshooting.md"))...)
	for line := range strings.Lines(contents(t, "docs/operate.md")) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			out = append(out, strings.TrimSpace(heading))
		}
	}
	for _, m := range notesCommand.FindAllStringSubmatch(contents(t, "deployments/helm/dra-driver-rdma/templates/NOTES.txt"), -1) {
		out = append(out, strings.TrimSpace(m[1]+" "+m[2]+" "+m[3]))
	}
	return out
}

// firstCells are the first cells of the rows of tables, without their headings.
func firstCells(page string) (out []string) {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		heading := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		if strings.HasPrefix(line, "| ") && !heading {
			out = append(out, strings.TrimSpace(strings.Split(line, "|")[1]))
		}
	}
	return out
}

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", path))
	must.NoError(t, err)
	return string(data)
}
