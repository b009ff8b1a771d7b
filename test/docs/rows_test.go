package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

var (
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)(?:/[^`]*)?`")
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// TestRowsNameTests: some tables say what stops an attack, what helps in trouble, or which task was walked. Each row
// names a test that is there, or says why none is. RBAC and gaps aside, what nothing shows is no row.
func TestRowsNameTests(t *testing.T) {
	declared := declaredTests(t, "../..")
	for page, table := range map[string]struct{ cells, cell, least int }{
		"docs/dev/threats.md": {3, 2, 30}, "test/docs/testdata/remedies.md": {3, 2, 100},
		"test/docs/testdata/walked.md": {5, 3, 10},
	} {
		rows := 0
		for _, cells := range rowsOf(contents(t, page), table.cells) {
			rows++
			names := namedTest.FindAllStringSubmatch(cells[table.cell], -1)
			test.True(t, len(names) > 0 || strings.HasPrefix(cells[table.cell], "no test: "),
				test.Sprintf("%s: neither a test nor a reason: %s", page, cells[0]))
			for _, name := range names {
				test.True(t, declared[name[1]], test.Sprintf("%s: there is no test %s: %s", page, name[1], cells[0]))
			}
		}
		test.GreaterEq(t, table.least, rows, test.Sprintf("rows of %s: has the page another form?", page))
	}
}

// rowsOf are the rows of the tables of a page with so many columns, without the headings of the tables.
func rowsOf(page string, columns int) (rows [][]string) {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		heading := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if strings.HasPrefix(line, "| ") && !heading && (columns == 0 || len(cells) == columns) {
			rows = append(rows, cells)
		}
	}
	return rows
}

// declaredTests are the tests of all modules.
func declaredTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declaredTest.FindAllSubmatch(source, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	must.NoError(t, err)
	return found
}
