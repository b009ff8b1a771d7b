package support

import (
	"regexp"
	"strings"
	"testing"
)

var placeholder = regexp.MustCompile(`\(node [0-9]+\)|\(hidden\)|\(host\)|\(user\)`)

// FuzzNames: whatever the text, the name of a node is not left in it as a word of its own, and the same text gives the
// same result.
func FuzzNames(f *testing.F) {
	f.Add("gpu-west-17", "at gpu-west-17: x", 3)
	f.Add("abc", `"x\nabc" abc.example.com ABC abc-def`, 1)
	f.Add("aaaa", "aaaa:bbbb:cccc:dddd aaaaaaaaaaaaaaaa ::aaaa", 1)
	f.Add("192.0.2.7", "::ffff:192.0.2.7 192.0.2.7:1", 2)
	f.Add("node", "(node 1) node", 1)
	f.Fuzz(func(t *testing.T, name, text string, _ int) {
		if len(name) < shortest || !alnum(name[0]) || !alnum(name[len(name)-1]) || len(text) > 1<<16 {
			return // no name of the API server
		}
		s := New([]byte("a test"))
		s.Name("node", name)
		out := s.Text(text)
		rest := lower(placeholder.ReplaceAllString(out, " "))
		if s.Leak(rest) != "" && !strings.ContainsAny(name, "()\\ ") {
			t.Errorf("%q is left in %q of %q", name, rest, text)
		}
		again := New([]byte("a test"))
		again.Name("node", name)
		if other := again.Text(text); other != out {
			t.Errorf("%q and %q of %q", out, other, text)
		}
	})
}
