package needs_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// recorder is a test that keeps how it ended first: it goes on where another would not.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()           {}
func (r *recorder) Skip(args ...any)  { r.ended = cmp.Or(r.ended, "skip: "+fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.ended = cmp.Or(r.ended, "fatal: "+fmt.Sprint(args...)) }

// TestProgram: what is missing is a skip here, a failure in CI, and left to make proof by make test; what is there is neither.
func TestProgram(t *testing.T) {
	const missing = `exec: "no-such-program": executable file not found in $PATH: install it`
	for ci, want := range map[string]string{"": "skip: " + missing, "true": "fatal: " + missing} {
		t.Setenv("CI", ci)
		if testing.Short() {
			want = "skip: in make proof: " + missing
		}
		r := &recorder{TB: t}
		if needs.Program(r, "no-such-program", "install it"); r.ended != want {
			t.Errorf("CI=%q: %q, want %q", ci, r.ended, want)
		}
		test.NotEq(t, "", needs.Program(t, "go", "install it"), test.Sprint("go is not found"))
	}
}

// TestLong: a short run skips and says why, and a long one goes on.
func TestLong(t *testing.T) {
	for long, want := range map[string]string{"": "skip: runs with TEST_LONG=1 alone: TestOther shows it", "1": ""} {
		t.Setenv("TEST_LONG", long)
		r := &recorder{TB: t}
		if needs.Long(r, "TestOther shows it"); r.ended != want {
			t.Errorf("TEST_LONG=%q: %q, want %q", long, r.ended, want)
		}
	}
}
