package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Two locks in the cache directory: the operation lock is held by a program while it
// brings a cluster up or down; the running lock of a state directory is held by process 1
// for as long as its cluster lives, and its file has the number of that process.
const (
	operationLock = "cluster.lock"

	// lockFD is the running lock's descriptor in process 1.
	lockFD = 3
)

var errLocked = errors.New("locked")

// runningLock is outside of the state directory, since somebody may remove that under a
// running cluster.
func (l layout) runningLock() string { return l.cgroup() + ".running" }

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
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errLocked
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

// claim takes the running lock.
func (l layout) claim() (*os.File, error) {
	f, err := lockFile(l.CacheDir, l.runningLock())
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("bring the cluster up: one runs whose state directory was removed: "+
			"take it down first, with `go -C test/cluster run ./cmd/cluster down --state-dir %s`", l.StateDir)
	}
	return f, err
}

// recordedPid is process 1 of a cluster whose state directory was removed under it, so
// that its socket cannot be found; 0 when there is none.
func (l layout) recordedPid() (pid int) {
	f, err := lockFile(l.CacheDir, l.runningLock())
	if err == nil {
		f.Close()
		return 0
	}
	data, err := os.ReadFile(filepath.Join(l.CacheDir, l.runningLock()))
	if err == nil {
		pid, err = strconv.Atoi(string(data))
	}
	if err != nil {
		return 0
	}
	return pid
}

// recordPid writes down who holds the running lock.
func recordPid(f *os.File, pid int) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(pid)), 0)
	}
	if err != nil {
		return fmt.Errorf("write down who holds the lock: %w", err)
	}
	return nil
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
