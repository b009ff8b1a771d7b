package dra

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
)

// TestYield: what nobody waits for comes after calls in progress and those that follow at once,
// and after a while all the same.
func TestYield(t *testing.T) {
	for name, tc := range map[string]struct {
		calls func(*calls) // while it waits
		want  time.Duration
	}{
		"no call":  {func(*calls) {}, 0},
		"one call": {func(c *calls) { c.begin(); time.Sleep(time.Second); c.end() }, time.Second + quietTime},
		"two in line": {func(c *calls) {
			c.begin()
			time.Sleep(quietTime)
			c.end()
			time.Sleep(quietTime / 2)
			c.begin()
			c.end()
		}, 5 * quietTime / 2},
		"no end": {func(c *calls) { c.begin() }, yieldTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c calls
				go tc.calls(&c)
				synctest.Wait()
				began := time.Now()
				c.yield(context.Background())
				took := time.Since(began)
				test.True(t, took >= tc.want && took <= tc.want+quietTime/2,
					test.Sprintf("it waited for %v, want %v", took, tc.want))
			})
		})
	}
}
