package policy_test

import (
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// TestTiming: the times of the file come before the defaults, and are read strictly.
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
	for yaml, want := range map[string]string{
		"health: {downAfter: 5}":          `health.downAfter: want a time, as 500ms or 30s, not "5"`,
		"health: {downAfter: soon}":       `health.downAfter: want a time`,
		"health: {downAfter: -1s}":        "health.downAfter: want 0s to 10m0s, not -1s",
		"health: {upAfter: 2h}":           "health.upAfter: want 0s to 1h0m0s, not 2h0m0s",
		"health: {fallsPerDay: 101}":      "health.fallsPerDay: want a number from 0 to 100, not 101",
		"health: {after: 2h}":             "health.after: unknown field",
		"publishInterval: 61s":            "publishInterval: want 0s to 1m0s",
		"publishInterval: [1s]":           "publishInterval: want a time",
		"health: {downAfter: {from: 1s}}": "line 3: health: want a time",
	} {
		_, err := policy.Parse([]byte(header + yaml + "\n"))
		test.ErrorContains(t, err, want, test.Sprint(yaml))
	}
}
