package drivertest_test

import (
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestJumped: a jump changes what a time shows, and not what it measures.
func TestJumped(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0, 87600 * time.Hour} {
		jumped := drivertest.Jumped(now, by)
		test.Eq(t, 0, jumped.Sub(now), test.Sprintf("jump by %v", by))
		test.Eq(t, by, jumped.Round(0).Sub(now.Round(0)), test.Sprint("jump by"))
	}
}
