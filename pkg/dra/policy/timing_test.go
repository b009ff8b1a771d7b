package policy_test

import (
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// TestTiming: the times of the file come before the defaults.
func TestTiming(t *testing.T) {
	for yaml, want := range map[string][3]time.Duration{
		"": {time.Second, 2 * time.Second, time.Second},
		"health: {downAfter: 0s, upAfter: 1m30s}\npublishInterval: 0s": {0, 90 * time.Second, 0},
		"health: {upAfter: 500ms}\npublishInterval: 1m":                {time.Second, 500 * time.Millisecond, time.Minute},
	} {
		c, err := policy.Parse([]byte(header + yaml + "\n"))
		must.NoError(t, err)
		var got [3]time.Duration
		h := c.HealthTimes(health.Config{Down: time.Second, Up: 2 * time.Second})
		got[0], got[1] = h.Down, h.Up
		got[2] = c.PublishInterval()
		test.EqOp(t, want, got, test.Sprintf("%q: times", yaml))
	}
}
