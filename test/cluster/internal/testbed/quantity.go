package testbed

import (
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// suffixes of quantities, the longer ones first.
var suffixes = []struct {
	suffix string
	factor int64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"", 1}}

// SameQuantity compares two quantities: the scheduler writes 40G as it likes, such as
// 39062500Ki.
func SameQuantity(t *testing.T, one, other string) bool {
	t.Helper()
	return value(t, one) == value(t, other)
}

func value(t *testing.T, quantity string) int64 {
	t.Helper()
	for _, s := range suffixes {
		number, ok := strings.CutSuffix(quantity, s.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		test.NoError(t, err, test.Sprintf("quantity %q", quantity))
		return n * s.factor
	}
	return 0
}
