package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// record is what go test -json and gotestsum write: a test of two seconds, one that waits for parallel ones, one that was
// left to make proof, one without a program, and one that failed before it passed.
const record = `{"Time":"2026-11-28T10:00:00Z","Action":"start","Package":"m/p"}
no JSON
{"Time":"2026-11-28T10:00:00Z","Action":"run","Package":"m/p","Test":"TestLong"}
{"Time":"2026-11-28T10:00:02Z","Action":"pass","Package":"m/p","Test":"TestLong","Elapsed":2}
{"Time":"2026-11-28T10:00:02Z","Action":"run","Package":"m/p","Test":"TestWaits"}
{"Time":"2026-11-28T10:00:02Z","Action":"pause","Package":"m/p","Test":"TestWaits"}
{"Time":"2026-11-28T10:00:03Z","Action":"run","Package":"m/p","Test":"TestDear"}
{"Time":"2026-11-28T10:00:03Z","Action":"run","Package":"m/p","Test":"TestDear/one"}
{"Time":"2026-11-28T10:00:03Z","Action":"output","Package":"m/p","Test":"TestDear/one","Output":"    p_test.go:7: in make proof: it is dear\n"}
{"Time":"2026-11-28T10:00:03Z","Action":"output","Package":"m/p","Test":"TestDear/one","Output":"--- SKIP: TestDear/one (0.00s)\n"}
{"Time":"2026-11-28T10:00:03Z","Action":"skip","Package":"m/p","Test":"TestDear/one","Elapsed":0}
{"Time":"2026-11-28T10:00:03Z","Action":"pass","Package":"m/p","Test":"TestDear","Elapsed":0}
{"Time":"2026-11-28T10:00:03Z","Action":"run","Package":"m/p","Test":"TestLacks"}
{"Time":"2026-11-28T10:00:03Z","Action":"output","Package":"m/p","Test":"TestLacks","Output":"    p_test.go:9: exec: \"jq\": not found: install it\n"}
{"Time":"2026-11-28T10:00:03Z","Action":"skip","Package":"m/p","Test":"TestLacks","Elapsed":0}
{"Time":"2026-11-28T10:00:04Z","Action":"cont","Package":"m/p","Test":"TestWaits"}
{"Time":"2026-11-28T10:00:05Z","Action":"fail","Package":"m/p","Test":"TestWaits","Elapsed":3}
{"Time":"2026-11-28T10:00:06Z","Action":"run","Package":"m/p","Test":"TestWaits"}
{"Time":"2026-11-28T10:00:07Z","Action":"pass","Package":"m/p","Test":"TestWaits","Elapsed":1}
`

func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	must.NoError(t, os.WriteFile(path, []byte(record), 0o600))
	var out strings.Builder
	const again = "failed, and not when run again, a fault to mend: "
	test.ErrorContains(t, run([]string{"summary", "test", path}, &out), again+"p TestWaits")
	test.StrContains(t, out.String(), "p TestLacks: exec: \"jq\": not found: install it\n\n1 more tests are in make proof.")
	test.StrContains(t, out.String(), "\n3 passed, 0 failed, 1 skipped\n")
	test.Error(t, run([]string{"summary", "test", path + ".absent"}, &out))
	test.Error(t, run([]string{"sum", path}, &out))
	test.Error(t, run(nil, &out))
}

// TestUnseen: what gotestsum passes over ends the command, and names itself.
func TestUnseen(t *testing.T) {
	const left = `{"Action":"run","Package":"m/p","Test":"TestDear"}
{"Action":"output","Package":"m/p","Test":"TestDear","Output":"    p_test.go:7: in make proof: it is dear\n"}
{"Action":"output","Package":"m/p","Test":"TestDear","Output":"    p_test.go:9: the end of its helper\n"}
{"Action":"skip","Package":"m/p","Test":"TestDear"}
`
	const ran = `{"Action":"run","Package":"m/p","Test":"TestDear"}
{"Action":"pass","Package":"m/p","Test":"TestDear"}
`
	for name, tc := range map[string]struct{ command, record, want string }{
		"left":                         {"test", left, ""},
		"left to the end":              {"proof", left, "left to make proof, and not run there: p TestDear"},
		"run":                          {"proof", left + ran, ""},
		"run, and left too":            {"proof", ran + left, ""},
		"another package of that name": {"proof", left + strings.ReplaceAll(ran, "m/p", "n/p"), "not run there: p TestDear"},
		"a TestMain":                   {"proof", `{"Action":"fail","Package":"m/p"}` + "\n", "mend: p outside of its tests"},
		"a test": {"proof", `{"Action":"run","Package":"m/p","Test":"TestBad"}
{"Action":"fail","Package":"m/p","Test":"TestBad"}
{"Action":"fail","Package":"m/p"}
{"Action":"run","Package":"m/p","Test":"TestBad"}
{"Action":"skip","Package":"m/p","Test":"TestBad"}
`, "a fault to mend: p TestBad"},
	} {
		t.Run(name, func(t *testing.T) {
			tests, err := read(strings.NewReader(tc.record))
			must.NoError(t, err)
			err = writeSummary(io.Discard, tc.command, tests)
			if tc.want == "" {
				must.NoError(t, err)
			} else {
				must.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestRest(t *testing.T) {
	tests, err := read(strings.NewReader(record))
	must.NoError(t, err)
	var out strings.Builder
	must.NoError(t, writeRest(&out, tests))
	test.Eq(t, "m/p ^(TestDear)$\n", out.String())
}

// TestShare: what was worked belongs to the tests that ran then, and to none if none did.
func TestShare(t *testing.T) {
	tests, err := read(strings.NewReader(record))
	must.NoError(t, err)
	began := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	var samples []sample
	for second := range 9 {
		samples = append(samples, sample{began.Add(time.Duration(second) * time.Second), time.Duration(second) * time.Second})
	}
	of, none := share(tests, samples)
	test.Eq(t, 2*time.Second, of[tests[0]])
	test.Eq(t, time.Second, of[tests[1]], test.Sprint("from cont to fail"))
	test.Eq(t, 4*time.Second, none)
}

func TestParseWorked(t *testing.T) {
	worked, err := parseWorked("cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 1 1 1\n")
	must.NoError(t, err)
	test.Eq(t, 1630*time.Millisecond, worked)
	for _, bad := range []string{"", "cpu 1 2", "cpu a b c d e f g", "intr 1 2 3 4 5 6 7"} {
		_, err := parseWorked(bad)
		test.Error(t, err, test.Sprintf("%q", bad))
	}
}
