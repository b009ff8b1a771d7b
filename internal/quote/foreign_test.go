package quote_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
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
