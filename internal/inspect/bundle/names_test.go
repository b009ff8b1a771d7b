package bundle

import (
	"regexp"
	"strings"
	"testing"
)

var placeholder = regexp.MustCompile(`\((node|hardware address|address) [0-9]+\)|\(hidden\)|\(host\)|\(user\)|\(address\)`)

// FuzzNames: whatever the text, the name of a node is not left in it as a word of its own, and the same text gives the
// same result.
func FuzzNames(f *testing.F) {
	f.Add("gpu-west-17", "at gpu-west-17: x", 3)
	f.Add("abc", `"x\nabc" abc.example.com ABC abc-def`, 1)
	f.Add("aaaa", "aaaa:bbbb:cccc:dddd aaaaaaaaaaaaaaaa ::aaaa", 1)
	f.Add("192.0.2.7", "::ffff:192.0.2.7 192.0.2.7:1", 2)
	f.Add("node", "(node 1) node", 1)
	f.Fuzz(func(t *testing.T, name, text string, _ int) {
		if len(name) < shortestName || !alnum(name[0]) || !alnum(name[len(name)-1]) || len(text) > 1<<16 {
			return // no name of the API server
		}
		s := newScrubber()
		s.add("node", name)
		out := s.text(text)
		rest := asciiLower(placeholder.ReplaceAllString(out, " "))
		if i := s.nameAnywhere(rest); i >= 0 && !strings.ContainsAny(name, "()\\ ") {
			t.Errorf("%q is left in %q of %q", name, rest, text)
		}
		again := newScrubber()
		again.add("node", name)
		if other := again.text(text); other != out {
			t.Errorf("%q and %q of %q", out, other, text)
		}
	})
}

// nameAnywhere returns where a text has a name as a word, -1 for nowhere.
func (s *scrubber) nameAnywhere(text string) int {
	for i := range len(text) {
		if s.nameAt(text, i) > 0 {
			return i
		}
	}
	return -1
}
