package testbed

import (
	"testing"

	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/api/resource"
)

// SameQuantity compares two quantities: the scheduler writes 40G as it likes, such as
// 39062500Ki.
func SameQuantity(t *testing.T, one, other string) bool {
	t.Helper()
	a, err := resource.ParseQuantity(one)
	must.NoError(t, err, must.Sprint(one))
	b, err := resource.ParseQuantity(other)
	must.NoError(t, err, must.Sprint(other))
	return a.Cmp(b) == 0
}
