package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestBadUse: each mistake is named, and nothing is printed as a result. The
// packages themselves are proved in package release.
func TestBadUse(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "give --out"},
		{[]string{"--out", t.TempDir()}, "give --version"},
		{[]string{"--out", t.TempDir(), "--version", "v1.0.0", "--arch", "amd64,mips"}, `"mips": want amd64 or arm64`},
		{[]string{"--out", "/dev/null/x", "--version", "v1.0.0", "--source", "../../.."}, "make directory for packages: mkdir /dev/null"},
		{[]string{"--out", t.TempDir(), "--version", "v1.0.0", "--plugin", "plan9/386"}, `"plan9/386": want some of [linux/amd64`},
		{[]string{"dist"}, `unknown argument "dist"`},
		{[]string{"--sign"}, "flag provided but not defined"},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), test.args, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), test.want) || stdout.Len() > 0 {
			t.Errorf("%q: error %v, stdout %q; want %q", test.args, err, stdout.String(), test.want)
		}
	}
}
