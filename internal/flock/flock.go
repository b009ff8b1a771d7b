// Package flock waits for the lock of a file, or of a byte of it, that another process has. The lock belongs to
// the open file, and the kernel drops it when its holder closes the file or dies.
package flock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel cannot wait until a context ends, so the lock is asked for again and again: most holders
// have it for the time of a few small operations on files.
const (
	waitMin = 500 * time.Microsecond
	waitMax = 20 * time.Millisecond
)

// Lock takes the exclusive lock of a file or directory. Its error is that of ctx if somebody has the lock
// until ctx ends.
func Lock(ctx context.Context, f *os.File) error {
	return wait(ctx, func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }, unix.EWOULDBLOCK)
}

// wait tries to lock until that does not fail because somebody else has the lock.
func wait(ctx context.Context, try func() error, taken unix.Errno) error {
	for wait := waitMin; ; wait = min(2*wait, waitMax) {
		err := try()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, taken) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
