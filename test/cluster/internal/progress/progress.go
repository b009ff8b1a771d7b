// Package progress tells a person what a long command is doing: one line per
// step, with the time since the command began.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// stillEvery is how long a step may be silent before it says that it goes on.
const stillEvery = 15 * time.Second

// Log writes progress lines. The zero value and nil write nothing.
type Log struct {
	w     io.Writer
	start time.Time
	mu    sync.Mutex
}

// New returns a Log whose clock starts now.
func New(w io.Writer) *Log {
	return &Log{w: w, start: time.Now()}
}

// Step writes one line.
func (l *Log) Step(format string, args ...any) {
	if l == nil || l.w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "[%6.1fs] %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// Long runs f, with a line before, a line after, and a line now and then
// between, so that a long build is not taken for a hang.
func (l *Log) Long(what string, f func() error) error {
	began := time.Now()
	l.Step("%s ...", what)
	tick := time.NewTicker(stillEvery)
	defer tick.Stop()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		select {
		case err := <-done:
			if err == nil {
				l.Step("%s: done in %.1fs", what, time.Since(began).Seconds())
			}
			return err
		case <-tick.C:
			l.Step("%s: still at it after %.0fs", what, time.Since(began).Seconds())
		}
	}
}
