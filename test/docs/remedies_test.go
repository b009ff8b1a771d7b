package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
)

var (
	warningRow   = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| Warning \\|")
	notesCommand = regexp.MustCompile(`(?m)^  (kubectl|helm)(?: -n \{\{.*?\}\})? ([a-z]+)(?: ([a-z]+))?`)
	codeWord     = regexp.MustCompile("`(\\w+)`")
)

// TestRemediesHaveRows: whatever tells somebody to do something has a row in testdata/remedies.md. TestRowsNameTests
// wants a test in it.
func TestRemediesHaveRows(t *testing.T) {
	known := map[string]bool{}
	for _, cells := range rowsOf(contents(t, "test/docs/testdata/remedies.md"), 3) {
		known[cells[0]] = true
		for _, word := range codeWord.FindAllStringSubmatch(cells[0], -1) {
			known[word[1]] = true
		}
	}
	wanted := told(t)
	test.GreaterEq(t, 100, len(wanted),
		test.Sprintf("only %d remedies were found: have the pages another form?", len(wanted)))
	for _, what := range wanted {
		test.True(t, known[what], test.Sprintf("testdata/remedies.md has no row for %q", what))
	}
}

// told are the findings, warnings, symptoms, sections and commands that need a row.
func told(t *testing.T) (out []string) {
	for _, k := range why.Kinds.Kinds {
		if strings.ToLower(k.ID[:1]) != k.ID[:1] { // others are verdicts
			out = append(out, k.ID)
		}
	}
	for _, m := range warningRow.FindAllStringSubmatch(contents(t, "docs/reference/events.md"), -1) {
		out = append(out, m[1])
	}
	_, held, _ := strings.Cut(contents(t, "docs/restarts.md"), "## What holds an HCA")
	held, _, _ = strings.Cut(held, "\n## ")
	for _, cells := range rowsOf(held+"\n"+contents(t, "docs/troubleshooting.md"), 0) {
		out = append(out, cells[0])
	}
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

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", path))
	must.NoError(t, err)
	return string(data)
}
