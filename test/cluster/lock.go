package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Two locks in the cache directory: the operation lock is held by a program while it
// brings the cluster up or down; the running lock is held by process 1 for as long
// as the cluster lives, and its file names the state directory.
const (
	operationLock = "cluster.lock"
	runningLock   = "cluster.running"

	// lockFD is the running lock's descriptor in process 1.
	lockFD = 3
)

var errLocked = errors.New("locked")

// lockFile takes an exclusive lock on a file of the cache, without waiting.
func lockFile(cache, name string) (*os.File, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("create the cache: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(cache, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			holder, _ := io.ReadAll(f)
			return nil, fmt.Errorf("lock %q: %w by %s", f.Name(), errLocked, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock %q: %w", f.Name(), err)
	}
	return f, nil
}

// operate takes the operation lock, waiting for another program to finish.
func (l layout) operate(ctx context.Context) (unlock func(), err error) {
	for {
		f, err := lockFile(l.CacheDir, operationLock)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for another cluster command: %w", err)
		}
	}
}

// claim takes the running lock and writes down whose it is.
func (l layout) claim() (*os.File, error) {
	f, err := lockFile(l.CacheDir, runningLock)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("one cluster at a time: %w; take that one down first", err)
	}
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(f, "the cluster in %s\n", l.StateDir)
	return f, err
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
