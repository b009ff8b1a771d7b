// Package flock waits for the lock of a file that another process has (flock(2)). The lock belongs to
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
	for wait := waitMin; ; wait = min(2*wait, waitMax) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
