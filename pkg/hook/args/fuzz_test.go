package args

import (
	"strings"
	"testing"
)

// FuzzParse: whatever stands in the arguments of a CDI spec, of this version or another, the hook has
// options that it can act on, or an error.
func FuzzParse(f *testing.F) {
	f.Add("--memlock\x00unlimited\x00--limit\x00mlx5_0:handles=64,objects=16384\x00--on-denied=fail" +
		"\x00--report\x00/run/r\x00--timeout\x002s")
	f.Add("--new-flag=1\x00extra\x00--memlock")
	f.Add("--timeout=-1s\x00--on-denied\x00\x00--limit=")
	f.Fuzz(func(t *testing.T, line string) {
		o, _, err := Parse(strings.Split(line, "\x00"))
		if err != nil {
			return
		}
		if o.Timeout <= 0 || o.OnDenied != Clamp && o.OnDenied != Fail && o.OnDenied != Ignore {
			t.Errorf("%q: %+v", line, o)
		}
		for _, l := range o.Limits {
			if l.IBDev == "" || l.Want == (Wanted{}) {
				t.Errorf("%q: limit %+v", line, l)
			}
		}
	})
}
