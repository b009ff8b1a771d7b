package docs

import (
	"regexp"
	"strings"
	"testing"
)

var taskRow = regexp.MustCompile(`(?m)^\| [a-j]\. .*$`)

// TestWalkedTasks: each task in docs/dev/walked.md names tests that are there, in its fourth cell.
func TestWalkedTasks(t *testing.T) {
	declared := declaredTests(t, "../..")
	rows := taskRow.FindAllString(contents(t, "docs/dev/walked.md"), -1)
	if len(rows) != 10 {
		t.Errorf("%d tasks were found, want 10", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		if len(cells) != 5 {
			t.Errorf("%d cells, want 5: %s", len(cells), row)
			continue
		}
		names := namedTest.FindAllStringSubmatch(cells[3], -1)
		if len(names) == 0 {
			t.Errorf("no test is named: %s", row)
		}
		for _, name := range names {
			if !declared[name[1]] {
				t.Errorf("there is no test %s: %s", name[1], row)
			}
		}
	}
}
