package rdma_test

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

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
