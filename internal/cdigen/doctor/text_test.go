package doctor

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

func TestText(t *testing.T) {
	r := newReport([]Finding{
		found("nodes-ok", OK, "nodes are well"),
		found("port-down", Warning, "1 port down").about("a/1", "b/1", "c/1", "d/1", "e/1", "f/1", "g/1", "h/1").
			because("%s", strings.Repeat("because ", 20)).fix("one", "two"),
	}, []Unseen{{"the sea", "no window"}})
	var plain, colour strings.Builder
	must.NoError(t, errors.Join(r.WriteText(&plain, false), r.WriteText(&colour, true)))
	for _, want := range []string{
		"WARNINGS\n  port-down            1 port down\n",
		"    on:  a/1, b/1, c/1, d/1, e/1, f/1 and 2 more\n",
		"because\n         because",
		"    fix: one\n         two\n",
		"NOT SEEN\n  the sea: no window\n",
		"\n0 errors, 1 warning, 0 notes, 1 ok\n",
	} {
		test.StrContains(t, plain.String(), want, test.Sprint("no"))
	}
	test.StrNotContains(t, plain.String(), "\x1b", test.Sprint("a plain report has escape sequences"))
	if stripped := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colour.String(),
		""); stripped != plain.String() || stripped == colour.String() {
		t.Errorf("the coloured report differs in more than colour:\n%q", colour.String())
	}
}

func TestTextOfNothing(t *testing.T) {
	r := newReport(nil, nil)
	if got := render(t, r); got != "0 errors, 0 warnings, 0 notes, 0 ok\n" || r.Worst() != OK {
		t.Errorf("got %q, worst %s", got, r.Worst())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestTextError(t *testing.T) {
	test.Error(t, newReport(nil, nil).WriteText(brokenPipe{}, false), test.Sprint("a failed write is no"))
}

// entry is a row of the table in docs/doctor.md.
type entry struct {
	id              ID
	severities      []Severity
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
		e := entry{id: ID(strings.Trim(cells[0], "`")), meaning: cells[2], remedy: cells[3]}
		for s := range strings.SplitSeq(cells[1], ", ") {
			e.severities = append(e.severities, Severity(s))
		}
		entries = append(entries, e)
	}
	return entries
}

// TestDocs: docs/doctor.md explains each finding of the catalogue once, in the order of the catalogue.
func TestDocs(t *testing.T) {
	var inCatalog, inDocs []ID
	for _, c := range catalog {
		inCatalog = append(inCatalog, c.ids...)
	}
	for _, e := range documented(t) {
		inDocs = append(inDocs, e.id)
		if e.meaning == "" || e.remedy == "" || (e.remedy == "-") != (e.severities[0] == OK) {
			t.Errorf("%s: meaning %q, remedy %q", e.id, e.meaning, e.remedy)
		}
		for _, s := range e.severities {
			test.GreaterEq(t, 0, s.rank(), test.Sprintf("%s: unknown severity %q", e.id, s))
		}
	}
	test.Eq(t, inCatalog, inDocs, test.Sprint("findings in docs/doctor.md"))
	test.Eq(t, len(inCatalog), len(unique(slices.Clone(inCatalog))), test.Sprint("different findings among"))
}

// TestLongFix: a command with a thousand names does not fill the screen. Programs have it whole.
func TestLongFix(t *testing.T) {
	r := &Report{Findings: []Finding{{ID: "node-stale", Severity: Error, Title: "x",
		Fix: "rm" + strings.Repeat(" /dev/infiniband/uverbs0", 3000) + "\nsystemctl restart x"}}}
	var out strings.Builder
	must.NoError(t, r.WriteText(&out, false))
	if text := out.String(); len(text) > 400 || !strings.Contains(text, "systemctl restart x") ||
		!strings.Contains(text, `cdi-gen doctor -o json | jq -r '.findings[] | select(.id == "node-stale") | .fix'`) {
		t.Errorf("the text is %s", text)
	}
}
