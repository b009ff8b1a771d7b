package quote_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/quote"
)

// TestForeign: somebody else's text stays within its quotes and its line, whatever it is.
func TestForeign(t *testing.T) {
	for in, want := range map[string]string{
		"":                                          `""`,
		"no such image":                             `"no such image"`,
		"pull \"a:b\":\n  denied\n":                 `"pull 'a:b': | denied"`,
		"x\r\nPod a/b is Running\u2028y":            `"x | Pod a/b is Running | y"`,
		"x" + strings.Repeat(" ", 200) + "y":        `"x y"`,
		"\x1b[2J\u202e\u200b\u3164\ufe0f\xff":       `"\x1b[2J\u202e\u200b\u3164\ufe0f\xff"`,
		strings.Repeat("a", quote.MaxForeign+1):     `"` + strings.Repeat("a", quote.MaxForeign) + `" (1 byte cut)`,
		strings.Repeat("é", quote.MaxForeign/2+9):   `"` + strings.Repeat("é", quote.MaxForeign/2) + `" (18 bytes cut)`,
		"a" + strings.Repeat("é", quote.MaxForeign): `"a` + strings.Repeat("é", quote.MaxForeign/2-1) + `" (1026 bytes cut)`,
	} {
		if got := quote.Foreign(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzForeign(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Add(strings.Repeat("\xff", 2*quote.MaxForeign))
	f.Fuzz(func(t *testing.T, text string) {
		got := quote.Foreign(text)
		inner, cut, found := strings.Cut(got[1:], `"`)
		if got[0] != '"' || !found || cut != "" && !strings.HasSuffix(cut, " cut)") || !harmless(got, "") {
			t.Errorf("%q: %s", text, got)
		}
		if len(inner) > 4*quote.MaxForeign || !utf8.ValidString(got) {
			t.Errorf("%d bytes of %d", len(inner), len(text))
		}
	})
}

// TestFprintf: only the format breaks lines, whatever type an argument has.
func TestFprintf(t *testing.T) {
	type word string
	var out strings.Builder
	quote.Fprintf(&out, "%s|%s|%v|%3d|%s\n", "a\nb", word("c\x1b"), errors.New("d\re"), 7, netip.MustParseAddr("::1"))
	if got := out.String(); got != `a\nb|c\x1b|d\re|  7|::1`+"\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	quote.Fprintf(&out, "%s", strings.Repeat("x", 1<<20))
	if got := out.Len(); got > 20<<10 {
		t.Errorf("%d bytes", got)
	}
}

// TestMessage: no line of an error looks like one of its own, and errors.Is sees through quotes.
func TestMessage(t *testing.T) {
	if got := quote.Message("error: a\nVerdict: fine\n"); got != "error: a\n  | Verdict: fine" {
		t.Errorf("%q", got)
	}
	if got := quote.Message(strings.Repeat("é", 1<<20)); len(got) > 20<<10 || !strings.HasSuffix(got, " bytes cut)") {
		t.Errorf("%d bytes end in %q", len(got), got[len(got)-20:])
	}
	if err := fmt.Errorf("read it: %w", quote.Error(fs.ErrNotExist)); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != `read it: "file does not exist"` {
		t.Error(err)
	}
	if got := quote.Bound("abc", 3) + quote.Bound("abc", 2); got != "abcab (1 byte cut)" {
		t.Error(got)
	}
}
