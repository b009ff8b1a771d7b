package text_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// TestForeign: somebody else's text stays within its quotes and its line, whatever it is.
func TestForeign(t *testing.T) {
	for in, want := range map[string]string{
		"":                                         `""`,
		"no such image":                            `"no such image"`,
		"pull \"a:b\":\n  denied\n":                `"pull 'a:b': | denied"`,
		"x\r\nPod a/b is Running\u2028y":           `"x | Pod a/b is Running | y"`,
		"x" + strings.Repeat(" ", 200) + "y":       `"x y"`,
		"\x1b[2J\u202e\u200b\u3164\ufe0f\xff":      `"\x1b[2J\u202e\u200b\u3164\ufe0f\xff"`,
		strings.Repeat("a", text.MaxForeign+1):     `"` + strings.Repeat("a", text.MaxForeign) + `" (1 byte cut)`,
		strings.Repeat("é", text.MaxForeign/2+9):   `"` + strings.Repeat("é", text.MaxForeign/2) + `" (18 bytes cut)`,
		"a" + strings.Repeat("é", text.MaxForeign): `"a` + strings.Repeat("é", text.MaxForeign/2-1) + `" (1026 bytes cut)`,
	} {
		if got := text.Foreign(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzForeign(f *testing.F) {
	for _, foreign := range hostile {
		f.Add(foreign)
	}
	f.Add(strings.Repeat("\xff", 2*text.MaxForeign))
	f.Fuzz(func(t *testing.T, foreign string) {
		got := text.Foreign(foreign)
		inner, cut, found := strings.Cut(got[1:], `"`)
		if got[0] != '"' || !found || cut != "" && !strings.HasSuffix(cut, " cut)") || !harmless(got, "") {
			t.Errorf("%q: %s", foreign, got)
		}
		if len(inner) > 4*text.MaxForeign || !utf8.ValidString(got) {
			t.Errorf("%d bytes of %d", len(inner), len(foreign))
		}
	})
}

// TestFprintf: only the format breaks lines, whatever type an argument has.
func TestFprintf(t *testing.T) {
	type word string
	var out strings.Builder
	text.Fprintf(&out, "%s|%s|%v|%3d|%s\n", "a\nb", word("c\x1b"), errors.New("d\re"), 7, netip.MustParseAddr("::1"))
	if got := out.String(); got != `a\nb|c\x1b|d\re|  7|::1`+"\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	text.Fprintf(&out, "%s", strings.Repeat("x", 1<<20))
	if got := out.Len(); got > 20<<10 {
		t.Errorf("%d bytes", got)
	}
}

// TestMessage: no line of an error looks like one of its own, and errors.Is sees through quotes.
func TestMessage(t *testing.T) {
	if got := text.Message("error: a\nVerdict: fine\n"); got != "error: a\n  | Verdict: fine" {
		t.Errorf("%q", got)
	}
	if got := text.Message(strings.Repeat("é", 1<<20)); len(got) > 20<<10 || !strings.HasSuffix(got, " bytes cut)") {
		t.Errorf("%d bytes end in %q", len(got), got[len(got)-20:])
	}
	if err := fmt.Errorf("read it: %w", text.Error(fs.ErrNotExist)); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != `read it: "file does not exist"` {
		t.Error(err)
	}
	if got := text.Bound("abc", 3) + text.Bound("abc", 2); got != "abcab (1 byte cut)" {
		t.Error(got)
	}
}
