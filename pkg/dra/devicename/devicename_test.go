package devicename

import (
	"testing"

	"github.com/shoenig/test"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		device string
		want   Name
	}{
		{"pci-0000-3b-00-0", Name{HCA: "pci-0000-3b-00-0"}},
		{"soft-rxe-eth0", Name{HCA: "soft-rxe-eth0"}},
		{"shared-pci-0000-c1-00-0-sf-88", Name{HCA: "pci-0000-c1-00-0-sf-88", Shared: true}},
		{"shared-soft-rxe-shared-eth0", Name{HCA: "soft-rxe-shared-eth0", Shared: true}},
		{"group-all", Name{Group: "all"}},
		{"group-shared-x", Name{Group: "shared-x"}},
	} {
		got := Parse(tc.device)
		test.EqOp(t, tc.want, got, test.Sprintf("Parse(%q)", tc.device))
		test.Eq(t, tc.device, got.String(), test.Sprintf("Parse(%q).String() = %q", tc.device, got))
	}
}

// String puts a name together again: it is the inverse of Parse.
func (n Name) String() string {
	switch {
	case n.Group != "":
		return Group(n.Group)
	case n.Shared:
		return Shared(n.HCA)
	}
	return n.HCA
}
