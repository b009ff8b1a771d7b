// Package flock has the locks of the driver. The lock of a file, or of one of its bytes, excludes other processes. It
// belongs to the open file, and the kernel releases it when the holder closes the file or dies. A lock by name excludes
// other goroutines of this process.
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// The shortest and the longest wait between two attempts. The kernel cannot wait until a context ends, so wait retries.
// Most holders keep the lock only for a few small file operations.
const (
	waitMin = 400 * time.Microsecond
	waitMax = 16 * time.Millisecond
)

// Lock takes the exclusive lock of a file or directory. It returns the error of ctx if another open file holds the lock
// until ctx ends.
func Lock(ctx context.Context, f *os.File) error {
	return wait(ctx, func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }, unix.EWOULDBLOCK)
}

// TryLock is Lock without a wait. It reports whether it took the lock.
func TryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// LockShared takes the shared lock of a file or directory. It waits without an end while another open file holds the
// exclusive lock.
func LockShared(f *os.File) error {
	_, err := loop.Uninterrupted(func() (int, error) { return 0, unix.Flock(int(f.Fd()), unix.LOCK_SH) })
	return err
}

// Open opens a file or directory and takes its exclusive lock, until the caller closes it. It calls open again if the
// file was removed meanwhile, because others would not see the lock of a removed file.
func Open(ctx context.Context, open func() (*os.File, error)) (*os.File, error) {
	for {
		f, err := open()
		if err != nil {
			return nil, err
		}
		exists := false
		if err = Lock(ctx, f); err == nil {
			exists, err = HasName(f)
		}
		if exists {
			return f, nil
		}
		f.Close() // nothing was written to it
		if err != nil {
			return nil, err
		}
	}
}

// HasName reports whether an open file or directory still has a name.
func HasName(f *os.File) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, fmt.Errorf("read the state of %q: %w", f.Name(), err)
	}
	return st.Nlink > 0, nil
}

// wait retries while the error is taken, which means that another open file holds the lock.
func wait(ctx context.Context, try func() error, taken unix.Errno) error {
	for backoff := loop.NewBackoff(waitMin, waitMax); ; {
		err := try()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, taken) {
			return err
		}
		if !loop.Sleep(ctx, backoff.Next()) {
			return ctx.Err()
		}
	}
}
