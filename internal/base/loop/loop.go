// Package loop waits for changes and for time, and before the next try. It keeps the errors of retries, each to be
// logged once, and repeats system calls that a signal interrupts.
package loop

import (
	"context"
	"syscall"
	"time"
)

// Uninterrupted repeats a system call until no signal interrupts it.
func Uninterrupted(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// Signal tells one loop that something has changed. Changes that come before the loop looks count as one.
type Signal chan struct{}

// NewSignal returns a signal on which nothing waits.
func NewSignal() Signal { return make(Signal, 1) }

// Set announces a change. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Sleep waits, and returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
