package text_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

func TestWriteFindings(t *testing.T) {
	nodes, port, sea := finding.Kind{ID: "nodes-ok"}, finding.Kind{ID: "port-down"}, finding.Kind{ID: "not-seen"}
	list := []finding.Finding{
		port.Found(finding.Warning, "1 port down").About("a/1", "b/1", "c/1", "d/1", "e/1", "f/1", "g/1", "h/1").
			Because("%s", strings.Repeat("because ", 20)).Do("one", "two").See("three"),
		nodes.Found(finding.OK, "nodes are well"),
		sea.Found(finding.NotSeen, "the sea: no window").About("the sea"),
	}
	var plain, colour strings.Builder
	must.NoError(t, errors.Join(text.WriteFindings(&plain, list, false), text.WriteFindings(&colour, list, true)))
	for _, want := range []string{
		"WARNINGS\n  port-down            1 port down\n",
		"    on:  a/1, b/1, c/1, d/1, e/1, f/1 and 2 more\n",
		"because\n         because",
		"    see: three\n    fix: one\n         two\n",
		"NOT SEEN\n  the sea: no window\n",
		"\n0 errors, 1 warning, 0 notes, 1 ok, 1 not seen\n",
	} {
		test.StrContains(t, plain.String(), want, test.Sprint("no"))
	}
	test.StrNotContains(t, plain.String(), "\x1b", test.Sprint("a plain report has escape sequences"))
	if stripped := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colour.String(),
		""); stripped != plain.String() || stripped == colour.String() {
		t.Errorf("the coloured report differs in more than colour:\n%q", colour.String())
	}
}

func TestWriteNoFindings(t *testing.T) {
	var b strings.Builder
	must.NoError(t, text.WriteFindings(&b, nil, false))
	test.Eq(t, "0 errors, 0 warnings, 0 notes, 0 ok\n", b.String())
	test.Eq(t, finding.OK, text.Summarize(nil).Worst())
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteFindingsFails(t *testing.T) {
	test.Error(t, text.WriteFindings(brokenPipe{}, nil, false), test.Sprint("a failed write is no"))
}

// TestLongRemedy: a command with a thousand names does not fill the screen. Programs have it whole.
func TestLongRemedy(t *testing.T) {
	stale := finding.Kind{ID: "node-stale"}
	list := []finding.Finding{stale.Found(finding.Error, "x").
		Do("rm"+strings.Repeat(" /dev/infiniband/uverbs0", 3000), "systemctl restart x")}
	var out strings.Builder
	must.NoError(t, text.WriteFindings(&out, list, false))
	if got := out.String(); len(got) > 400 || !strings.Contains(got, "systemctl restart x") ||
		!strings.Contains(got, "characters; remedy of node-stale in -o json)") {
		t.Errorf("the text is %s", got)
	}
}
