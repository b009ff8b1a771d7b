package drivertest_test

import (
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestJumped: a jump changes what a time shows, and not what it measures.
func TestJumped(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0, 87600 * time.Hour} {
		jumped := drivertest.Jumped(now, by)
		if got := jumped.Sub(now); got != 0 {
			t.Errorf("jump by %v: %v passed", by, got)
		}
		if got := jumped.Round(0).Sub(now.Round(0)); got != by {
			t.Errorf("jump by %v: the clock shows %v more", by, got)
		}
	}
}
