package loop_test

import (
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// TestBackoff: waits grow to the longest and stay there, begin again after a success, and no two nodes keep step.
func TestBackoff(t *testing.T) {
	a, b := loop.NewBackoff(time.Second, 30*time.Second), loop.NewBackoff(time.Second, 30*time.Second)
	same := 0
	for step := range 50 {
		least := min(time.Second<<min(step%25, 10), 30*time.Second)
		waits := [2]time.Duration{a.Next(), b.Next()}
		for _, wait := range waits {
			test.True(t, wait >= least && wait <= least*3/2,
				test.Sprintf("wait %d is %v, want %v and up to half as much more", step, wait, least))
		}
		if waits[0] == waits[1] {
			same++
		}
		if step == 24 {
			a.Reset()
			b.Reset()
		}
	}
	test.LessEq(t, 1, same, test.Sprintf("two nodes wait the same in %d steps of 50", same))
}
