package podnet

import (
	"errors"
	"strings"
	"testing"
)

// TestComplaint: what a failed plugin says stands in quotes, on one line, bounded.
func TestComplaint(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, tc := range []struct{ stdout, stderr, want string }{
		{`{"code": 7, "msg": "no\nfree", "details": "x"}`, "", `"no | free`},
		{"", "panic:\n\x1b[2Jwarning: fine\n", `exit status 1: "panic: | \x1b[2Jwarning: fine"`},
		{strings.Repeat("x", 1<<20), "", "bytes cut)"},
	} {
		err := complaint(failed, []byte(tc.stdout), tc.stderr).Error()
		if !strings.Contains(err, tc.want) || len(err) > 2000 || strings.ContainsAny(err, "\n\x1b") {
			t.Errorf("%.40q: %q", tc.stdout, err)
		}
	}
}
