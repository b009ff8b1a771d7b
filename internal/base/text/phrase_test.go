package text_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 ports", 1: "1 port", 2: "2 ports"} {
		test.Eq(t, want, text.Count(n, "port"), test.Sprintf("%d", n))
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
		test.Eq(t, want, text.Some(strings.Fields(list), ", "), test.Sprintf("%q", list))
	}
}
