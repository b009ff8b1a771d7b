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

// TestThreatsAreTested: each row of docs/dev/threats.md that says what stops an attack names a test that is there, in
// its last cell. RBAC and gaps aside, what nothing shows is no row.
func TestThreatsAreTested(t *testing.T) {
	declared := declaredTests(t, "../..")
	page, err := os.ReadFile("../../docs/dev/threats.md")
	must.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[2]) == "test" {
			continue
		}
		rows++
		names := namedTest.FindAllStringSubmatch(cells[2], -1)
		test.NotEq(t, 0, len(names), test.Sprintf("no test is named: %s", line))
		for _, name := range names {
			test.True(t, declared[name[1]], test.Sprintf("there is no test %s: %s", name[1], line))
		}
	}
	test.GreaterEq(t, 30, rows, test.Sprintf("%d rows were found: has the page another form?", rows))
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
