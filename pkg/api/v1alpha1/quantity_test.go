package v1alpha1

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// TestHugeExponent: a number that the parser would compute with for hours is refused at once, wherever a user may
// write one.
func TestHugeExponent(t *testing.T) {
	for _, number := range []string{"1e-2147483648", "1E-2147483648", "0.1e+1000", "1e-1000", strings.Repeat("9", 65),
		"1e-00000000000000000000000000000000000000000000000000000000000000001"} {
		for _, raw := range []string{
			claimJSON(`"limits":{"handles":"` + number + `"}`), claimJSON(`"limits":{"objects":` + number + `}`),
			claimJSON(`"memlock":"` + number + `"`),
			claimJSON(`"memlock":` + number), classJSON(`"allow":{"limitsMax":{"handles":"` + number + `"}}`),
			classJSON(`"allow":{"memlockMax":"` + number + `"}`),
		} {
			obj, err := Decode([]byte(raw))
			test.Error(t, err, test.Sprintf("%s is taken as %v", raw, obj))
		}
	}
	for _, number := range []string{"1e3", "1E3", "2E", "1Ei", "10e-1", "1.5Ki"} {
		_, err := Decode([]byte(claimJSON(`"memlock":"` + number + `"`)))
		test.NoError(t, err, test.Sprint(number))
	}
}

// TestManyErrors: few words report parameters with many errors, and larger ones than the API server takes are not read.
func TestManyErrors(t *testing.T) {
	for raw, want := range map[string]string{
		claimJSON(`"env":[` + strings.Repeat(`"",`, 3000) + `""]`):                "and 5991 more",
		claimJSON(`"x":1` + strings.Repeat(`,"x":1`, 1500)):                       "unknown field",
		claimJSON(`"network":{"routes":[` + strings.Repeat(`{},`, 3000) + `{}]}`): "and 2992 more",
		claimJSON(`"env":["` + strings.Repeat("x", 11_000) + `"]`):                "want at most 10240",
		strings.Repeat("[", 10_000):                                               "",
	} {
		_, err := Decode([]byte(raw))
		test.True(t, err != nil && len(err.Error()) <= 4000 && strings.Contains(err.Error(), want),
			test.Sprintf("%.60s...: error %.300v, want %q", raw, err, want))
	}
}
