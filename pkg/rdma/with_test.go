package rdma_test

import (
	"testing"

	"github.com/shoenig/test"
)

// TestWith: HCAs that are added stand in their order, and replace their namesakes.
func TestWith(t *testing.T) {
	whole := discover(t, "roce-sriov")
	part := *whole
	part.HCAs = append(part.HCAs[:0:0], whole.HCAs[:2]...)
	part.HCAs = append(part.HCAs, whole.HCAs[4:]...)
	changed := whole.HCAs[0]
	changed.Uverbs = nil
	part.HCAs[0] = changed
	test.Eq(t, whole.HCAs, part.With(whole.HCAs[2], whole.HCAs[0], whole.HCAs[3]).HCAs)
	test.True(t, len(part.HCAs) == len(whole.HCAs)-2 && part.HCAs[0].Uverbs == nil,
		test.Sprint("the receiver was changed"))
}
