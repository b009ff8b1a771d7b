package text_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shoenig/test"

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
		test.Eq(t, want, text.Foreign(in), test.Sprintf("%q", in))
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
	test.Eq(t, `a\nb|c\x1b|d\re|  7|::1`+"\n", out.String())
	out.Reset()
	text.Fprintf(&out, "%s", strings.Repeat("x", 1<<20))
	test.LessEq(t, 20<<10, out.Len(), test.Sprint("bytes"))
}

// TestMessage: no line of an error looks like one of its own, and errors.Is sees through quotes.
func TestMessage(t *testing.T) {
	test.Eq(t, "error: a\n  | Verdict: fine", text.Message("error: a\nVerdict: fine\n"))
	if got := text.Message(strings.Repeat("é", 1<<20)); len(got) > 20<<10 || !strings.HasSuffix(got, " bytes cut)") {
		t.Errorf("%d bytes end in %q", len(got), got[len(got)-20:])
	}
	if err := fmt.Errorf("read it: %w", text.Error(fs.ErrNotExist)); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != `read it: "file does not exist"` {
		t.Error(err)
	}
	test.Eq(t, "abcab (1 byte cut)", text.Bound("abc", 3)+text.Bound("abc", 2))
}
