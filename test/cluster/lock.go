package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Two locks in the cache directory: the operation lock is held by a program while it
// brings the cluster up or down; the running lock is held by process 1 for as long
// as the cluster lives, and its file says who holds it.
const (
	operationLock = "cluster.lock"
	runningLock   = "cluster.running"

	// lockFD is the running lock's descriptor in process 1.
	lockFD = 3
)

var errLocked = errors.New("locked")

// holder is the content of the running lock.
type holder struct {
	Pid      int    `json:"pid"`
	StateDir string `json:"stateDir"`
}

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
	f, err := lockFile(l.CacheDir, runningLock)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("bring the cluster up: one runs already: take it down first, with `go -C test/cluster run ./cmd/cluster down --state-dir %s`", l.readHolder().StateDir)
	}
	if err != nil {
		return nil, err
	}
	return f, writeHolder(f, holder{StateDir: l.StateDir})
}

// readHolder says who holds, or last held, the running lock.
func (l layout) readHolder() (h holder) {
	data, err := os.ReadFile(filepath.Join(l.CacheDir, runningLock))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return holder{}
	}
	return h
}

func writeHolder(f *os.File, h holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(0), writeAll(f, data)); err != nil {
		return fmt.Errorf("write down who holds the lock: %w", err)
	}
	return nil
}

func writeAll(f *os.File, data []byte) error {
	_, err := f.WriteAt(data, 0)
	return err
}

// recordedPid is process 1 of a cluster whose state directory was removed under it, so
// that its socket cannot be found; 0 when there is none.
func (l layout) recordedPid() int {
	f, err := lockFile(l.CacheDir, runningLock)
	if err == nil {
		f.Close()
		return 0
	}
	if h := l.readHolder(); h.StateDir == l.StateDir {
		return h.Pid
	}
	return 0
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
