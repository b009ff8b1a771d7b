package text_test

import (
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 ports", 1: "1 port", 2: "2 ports"} {
		if got := text.Count(n, "port"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestSome(t *testing.T) {
	for list, want := range map[string]string{
		"":                "",
		"a":               "a",
		"a b c d e f":     "a, b, c, d, e, f",
		"a b c d e f g":   "a, b, c, d, e, f and 1 more",
		"a b c d e f g h": "a, b, c, d, e, f and 2 more",
	} {
		if got := text.Some(strings.Fields(list), ", "); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
