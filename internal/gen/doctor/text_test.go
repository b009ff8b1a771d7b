package doctor

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	r := newReport([]Finding{
		found("nodes-ok", OK, "nodes are well"),
		found("port-down", Warning, "1 port down").about("a/1", "b/1", "c/1", "d/1", "e/1", "f/1", "g/1", "h/1").
			because("%s", strings.Repeat("because ", 20)).fix("one", "two"),
	}, []Unseen{{"the sea", "no window"}})
	var plain, colour strings.Builder
	if err := errors.Join(r.WriteText(&plain, false), r.WriteText(&colour, true)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"WARNINGS\n  port-down            1 port down\n",
		"    on:  a/1, b/1, c/1, d/1, e/1, f/1 and 2 more\n",
		"because\n         because",
		"    fix: one\n         two\n",
		"NOT SEEN\n  the sea: no window\n",
		"\n0 errors, 1 warning, 0 notes, 1 ok\n",
	} {
		if !strings.Contains(plain.String(), want) {
			t.Errorf("no %q in\n%s", want, plain.String())
		}
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("a plain report has escape sequences")
	}
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
	if err := newReport(nil, nil).WriteText(brokenPipe{}, false); err == nil {
		t.Error("a failed write is no error")
	}
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
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(doc), "\n| finding | severity | meaning | remedy |\n|---|---|---|---|\n")
	if !found {
		t.Fatal("docs/doctor.md has no table of findings")
	}
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
			if s.rank() < 0 {
				t.Errorf("%s: unknown severity %q", e.id, s)
			}
		}
	}
	if diff := cmp.Diff(inCatalog, inDocs); diff != "" {
		t.Errorf("findings in docs/doctor.md (-want +got):\n%s", diff)
	}
	if got := len(unique(slices.Clone(inCatalog))); got != len(inCatalog) {
		t.Errorf("%d different findings among the %d of the catalogue", got, len(inCatalog))
	}
}

// TestLongFix: a command with a thousand names does not fill the screen. Programs have it whole.
func TestLongFix(t *testing.T) {
	r := &Report{Findings: []Finding{{ID: "node-stale", Severity: Error, Title: "x",
		Fix: "rm" + strings.Repeat(" /dev/infiniband/uverbs0", 3000) + "\nsystemctl restart x"}}}
	var out strings.Builder
	if err := r.WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); len(text) > 400 || !strings.Contains(text, "systemctl restart x") ||
		!strings.Contains(text, `cdi-gen doctor -o json | jq -r '.findings[] | select(.id == "node-stale") | .fix'`) {
		t.Errorf("the text is %s", text)
	}
}
