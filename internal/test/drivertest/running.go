package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// Log keeps what a driver says.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Running is a driver that runs in the test's own process.
type Running struct {
	Log Log
	// Cancel asks the driver to stop, and does not wait for it.
	Cancel context.CancelFunc

	t     testing.TB
	done  chan error
	ended bool
}

// Run runs a driver until Stop or the end of the test, which prints its log if the test
// failed.
func Run(t testing.TB, driver interface{ Run(context.Context) error }) *Running {
	t.Helper()
	r := &Running{t: t, done: make(chan error, 1)}
	ctx := klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&r.Log), textlogger.Verbosity(3))))
	ctx, r.Cancel = context.WithCancel(ctx)
	go func() { r.done <- driver.Run(ctx) }()
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			t.Logf("the driver said:\n%s", r.Log.String())
		}
	})
	return r
}

// WaitLog waits until the log has a text.
func (r *Running) WaitLog(text string) {
	r.t.Helper()
	Eventually(r.t, func() error {
		if !strings.Contains(r.Log.String(), text) {
			return fmt.Errorf("the log of the driver lacks %q", text)
		}
		return nil
	})
}

// Stop stops the driver, which must end without an error. It reports whether it was the
// first to do so.
func (r *Running) Stop() bool {
	r.t.Helper()
	r.Cancel()
	if r.ended {
		return false
	}
	r.ended = true
	test.NoError(r.t, <-r.done, test.Sprint("the driver ended"))
	return true
}
