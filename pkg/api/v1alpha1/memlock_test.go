package v1alpha1

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestMemlockQuantities: a Kubernetes quantity of whole bytes means what it means in Kubernetes, and one of parts of a
// byte is refused.
func TestMemlockQuantities(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	good := 0
	for range 20_000 {
		text := pick("", "", "", "+", "-") + fmt.Sprint(random.Uint64()>>random.IntN(64)) + pick("", "", ".", ".0", ".5", ".25", ".001") +
			pick("", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e+6", "e-2", "E0")
		q, err := resource.ParseQuantity(text)
		must.NoError(t, err, must.Sprintf("%s is no quantity", text))
		want, whole := whole(q)
		got, err := Memlock(text).Bytes()
		test.True(t, whole == (err == nil) && (!whole || got == want),
			test.Sprintf("%s is %d, %v; to Kubernetes it is %d, whole: %v", text, got, err, want, whole))
		if whole {
			good++
		}
	}
	test.GreaterEq(t, 2000, good, test.Sprintf("only %d quantities were sizes", good))
	for text, want := range map[Memlock]int64{"unlimited": math.MaxInt64, "4g": 4 << 30, "4GB": 4 << 30, "4G": 4e9, "64m": 64 << 20, "4gib": 4 << 30} {
		got, err := text.Bytes()
		test.True(t, err == nil && got == want, test.Sprintf("%s is %d, %v; want %d", text, got, err, want))
	}
}
