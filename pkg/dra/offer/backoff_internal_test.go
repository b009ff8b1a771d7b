package offer

import (
	"testing"
	"time"

	"github.com/shoenig/test"
)

// TestAPIBackoff: waits grow to half a minute and stay there, and no two nodes keep
// step.
func TestAPIBackoff(t *testing.T) {
	a, b := apiBackoff(), apiBackoff()
	same := 0
	for step := range 50 {
		least := min(time.Second<<min(step, 10), 30*time.Second)
		waits := [2]time.Duration{a.Step(), b.Step()}
		for _, wait := range waits {
			test.True(t, wait >= least && wait <= least*3/2,
				test.Sprintf("wait %d is %v, want %v and up to half as much more", step, wait, least))
		}
		if waits[0] == waits[1] {
			same++
		}
	}
	test.LessEq(t, 1, same, test.Sprintf("two nodes wait the same in %d steps of 50", same))
}
