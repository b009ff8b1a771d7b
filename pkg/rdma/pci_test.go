package rdma_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func TestPlaceOf(t *testing.T) {
	got := rdma.PlaceOf("../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0")
	want := rdma.Place{Address: "0000:19:00.0", Root: "pci0000:15",
		Bridges: []string{"0000:15:01.0", "0000:16:00.0", "0000:17:01.0"}}
	test.Eq(t, want, got, test.Cmp(cmpopts.IgnoreUnexported(rdma.Place{})), test.Sprint("place"))
	for _, s := range []string{"", "../../../devices/virtual/net/lo", "pci0000:15"} {
		if got := rdma.PlaceOf(s); got.Address != "" {
			t.Errorf("%q has the place %+v; want one without an address", s, got)
		}
	}
}

func TestComparePCIAddresses(t *testing.T) {
	addresses := []string{"10000:01:00.0", "0000:3b:00.1", "2000:00:00.0", "0000:3b:00.0", "none"}
	slices.SortFunc(addresses, rdma.ComparePCIAddresses)
	want := []string{"none", "0000:3b:00.0", "0000:3b:00.1", "2000:00:00.0", "10000:01:00.0"}
	test.Eq(t, want, addresses, test.Sprint("order"))
}

// FuzzParsePCIeLink: a link is read from the text that it writes.
func FuzzParsePCIeLink(f *testing.F) {
	for _, text := range []string{"32x16", "2.5x1", "NaNx1", "16x", "x", "1e2x4", "-5x1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := rdma.ParsePCIeLink(text)
		if again, err2 := rdma.ParsePCIeLink(l.String()); err == nil && (err2 != nil || again != l) {
			t.Errorf("%q is %v, and that is %v", text, l, again)
		}
	})
}
