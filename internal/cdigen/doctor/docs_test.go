package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// entry is a row of the table in docs/doctor.md.
type entry struct {
	id              string
	severities      []finding.Severity
	meaning, remedy string
}

// documented reads the table of findings in docs/doctor.md.
func documented(t *testing.T) (entries []entry) {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/doctor.md")
	must.NoError(t, err)
	_, table, found := strings.Cut(string(doc), "\n| finding | severity | meaning | remedy |\n|---|---|---|---|\n")
	must.True(t, found, must.Sprint("docs/doctor.md has no table of findings"))
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		if len(cells) != 4 {
			break
		}
		e := entry{id: strings.Trim(cells[0], "`"), meaning: cells[2], remedy: cells[3]}
		for s := range strings.SplitSeq(cells[1], ", ") {
			e.severities = append(e.severities, finding.Severity(s))
		}
		entries = append(entries, e)
	}
	return entries
}

// TestDocs: docs/doctor.md explains each kind of finding once. The looks of each kind are those of testdata/looks.txt.
func TestDocs(t *testing.T) {
	var kinds, inDocs []string
	looks := ""
	for _, k := range catalogue.Kinds {
		kinds = append(kinds, k.ID)
		if k != notSeen {
			test.SliceNotEmpty(t, k.Looks, test.Sprintf("%s declares what it has looked at", k.ID))
			looks += k.ID + ": " + strings.Join(k.Looks, ", ") + "\n"
		}
	}
	golden.Bytes(t, "looks.txt", []byte(looks))
	for _, e := range documented(t) {
		inDocs = append(inDocs, e.id)
		if e.meaning == "" || e.remedy == "" || (e.remedy == "-") != (e.severities[0] == finding.OK) {
			t.Errorf("%s: meaning %q, remedy %q", e.id, e.meaning, e.remedy)
		}
		for _, s := range e.severities {
			test.SliceContains(t, finding.Severities, s, test.Sprint(e.id))
		}
	}
	slices.Sort(kinds)
	slices.Sort(inDocs)
	test.Eq(t, kinds, inDocs, test.Sprint("findings in docs/doctor.md"))
	test.Eq(t, len(kinds), len(slices.Compact(kinds)), test.Sprint("different kinds"))
}
