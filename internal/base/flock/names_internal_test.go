package flock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestNamesOfMany: callers with random names do not wait for each other in a circle, and never hold the same name.
func TestNamesOfMany(t *testing.T) {
	var l Names
	users := make([]int, 8) // which the locks protect, as the race detector sees
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for range 100 {
				mine := random.Perm(8)[:1+random.IntN(8)]
				names := make([]string, len(mine))
				for i, name := range mine {
					names[i] = fmt.Sprint(name)
				}
				unlock, err := l.Lock(t.Context(), names...)
				if err != nil {
					t.Error(err)
					return
				}
				for _, name := range mine {
					if users[name]++; users[name] != 1 {
						t.Errorf("name %d has %d users", name, users[name])
					}
				}
				for _, name := range mine {
					users[name]--
				}
				unlock()
			}
		})
	}
	all.Wait()
	unlock, err := l.Lock(t.Context(), "a")
	must.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Lock(ended, "0", "a")
	test.ErrorIs(t, err, context.Canceled)
	unlock()
	test.Eq(t, 0, len(l.names), test.Sprintf("left are %v", l.names))
}
