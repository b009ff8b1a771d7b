package devicename_test

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/shoenig/test"
)

// FuzzParse: a name that is taken apart and put together is the same, unless it lacks
// what its prefix is about.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "pci-0000-3b-00-0", "shared-pci-0000-3b-00-0", "group-all", "group-", "shared-",
		"shared-group-all", "group-shared-x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, device string) {
		n := devicename.Parse(device)
		got := n.String()
		test.True(t, got == device || device == "group-", test.Sprintf("%q became %q by %+v", device, got, n))
		test.True(t, n.HCA == "" || n.Group == "", test.Sprintf("%q is of an HCA and of a group: %+v", device, n))
	})
}
