// Package flock waits for the lock of a file, or of one of its bytes, that another process holds. The lock belongs to
// the open file. The kernel releases it when the holder closes the file or dies.
package flock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// The shortest and the longest wait between two attempts. The kernel cannot wait until a context ends, so wait retries.
// Most holders keep the lock only for a few small file operations.
const (
	waitMin = 500 * time.Microsecond
	waitMax = 20 * time.Millisecond
)

// Lock takes the exclusive lock of a file or directory. It returns the error of ctx if another open file holds the lock
// until ctx ends.
func Lock(ctx context.Context, f *os.File) error {
	return wait(ctx, func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }, unix.EWOULDBLOCK)
}

// wait retries while the error is taken, which means that another open file holds the lock.
func wait(ctx context.Context, try func() error, taken unix.Errno) error {
	for wait := waitMin; ; wait = min(2*wait, waitMax) {
		err := try()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, taken) {
			return err
		}
		if !loop.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}
