package support

import (
	"regexp"
	"strings"
	"testing"
)

var placeholder = regexp.MustCompile(`\(node [0-9]+\)|\(hidden\)|\(host\)|\(user\)`)

// TestNames: a name may begin and end with any character. One that is too short to search for has a word in fields.
func TestNames(t *testing.T) {
	s := New([]byte("a test"))
	for _, name := range []string{"_leaf-3", "Ostblatt\u00e4", "/CN=alice", "s1"} {
		s.Name("leaf", name)
	}
	for text, want := range map[string]string{
		"on _leaf-3: x":                   "on (leaf 1): x",
		"Ostblatt\u00e4, xOstblatt\u00e4": "(leaf 2), xOstblatt\u00e4",
		"by /CN=alice, /CN=alicex":        "by (leaf 3), /CN=alicex",
		"s1":                              "s1",
		`User "bob" cannot list, err="User \"bob\" x"`: `User "(hidden)" cannot list, err="User \"(hidden)\" x"`,
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := s.NameOf("s1"); got != "(leaf 4)" {
		t.Errorf("a short name in a field is %q", got)
	}
}

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
