package testbed

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Change is what the API server tells of an object that came, changed or went.
type Change[T any] struct {
	At     time.Time // when it was heard of
	Type   string    // ADDED, MODIFIED or DELETED
	Object T
}

// Follow returns what the API server tells of objects that `kubectl get` lists, until the
// test ends: first those that are there, as ADDED.
func Follow[T any](b *Bed, t *testing.T, args ...string) <-chan Change[T] {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := b.Command(ctx, "kubectl", append([]string{"get", "--watch", "--output-watch-events", "-o", "json"}, args...)...)
	out, in := io.Pipe()
	cmd.Stdout = in
	wait, err := b.Begin(cmd)
	must.NoError(t, err)
	changes := make(chan Change[T], 1000)
	go func() {
		defer close(changes)
		// Ends when the command does, which ends its output.
		for decoder := json.NewDecoder(out); ; {
			var c Change[T]
			if decoder.Decode(&c) != nil {
				return
			}
			c.At = time.Now()
			changes <- c
		}
	}()
	ended := make(chan struct{})
	go func() {
		_ = wait() // killed
		in.Close()
		close(ended)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return changes
}

// Object is what every object of Kubernetes has.
type Object struct {
	Metadata struct{ Name string }
}

// Away has something happen that takes slices of the driver away, waits until all are back, and returns how long it
// took from the first that went. Before is how many there are: the watch has told of them when it happens.
func Away(t *testing.T, slices <-chan Change[Object], before int, happen func() error) time.Duration {
	t.Helper()
	there := map[string]bool{}
	var since time.Time
	for deadline, happened := time.After(Patience), false; ; {
		if !happened && len(there) == before {
			happened = true
			must.NoError(t, happen())
		}
		select {
		case c, ok := <-slices:
			switch {
			case !ok:
				t.Fatal("kubectl no longer follows the slices")
			case c.Type == "DELETED":
				delete(there, c.Object.Metadata.Name)
				if since.IsZero() {
					since = c.At
				}
			default:
				there[c.Object.Metadata.Name] = true
			}
			if !since.IsZero() && len(there) == before {
				return c.At.Sub(since)
			}
		case <-deadline:
			t.Fatalf("%d slices are there, want %d; the first went at %v", len(there), before, since)
		}
	}
}
