package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

var taskRow = regexp.MustCompile(`(?m)^\| [a-j]\. .*$`)

// TestWalkedTasks: each task in docs/dev/walked.md names tests that are there, in its fourth cell.
func TestWalkedTasks(t *testing.T) {
	declared := declaredTests(t, "../..")
	rows := taskRow.FindAllString(contents(t, "docs/dev/walked.md"), -1)
	test.Eq(t, 10, len(rows), test.Sprint("tasks were found"))
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		if len(cells) != 5 {
			t.Errorf("%d cells, want 5: %s", len(cells), row)
			continue
		}
		names := namedTest.FindAllStringSubmatch(cells[3], -1)
		test.NotEq(t, 0, len(names), test.Sprintf("no test is named: %s", row))
		for _, name := range names {
			test.True(t, declared[name[1]], test.Sprintf("there is no test %s: %s", name[1], row))
		}
	}
}
