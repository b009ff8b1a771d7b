package doctor

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	r := newReport([]Finding{
		found(NodesOK, OK, "nodes are well"),
		found(PortDown, Warning, "1 port down").about("a/1", "b/1", "c/1", "d/1", "e/1", "f/1", "g/1", "h/1").
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

// docs/doctor.md has the catalogue as it is here, and the catalogue each finding
// once.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), Markdown()) {
		t.Errorf("docs/doctor.md does not have this table:\n%s", Markdown())
	}
	seen := map[ID]bool{}
	for _, e := range Catalog {
		if seen[e.ID] {
			t.Errorf("%s stands twice", e.ID)
		}
		seen[e.ID] = true
		if (e.Remedy == "") != (e.Severities[0] == OK) {
			t.Errorf("%s: remedy %q", e.ID, e.Remedy)
		}
	}
}
