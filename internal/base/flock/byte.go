package flock

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// LockByte takes the exclusive lock of one byte of a file (fcntl(2), open file description locks). The byte may be
// beyond the end of the file. LockByte returns the error of ctx if another open file holds the lock until ctx ends.
// Locks of the same open file do not exclude each other, so the users of one open file must synchronize themselves.
func LockByte(ctx context.Context, f *os.File, at int64) error {
	return wait(ctx, func() error { return setByte(f, at, unix.F_WRLCK) }, unix.EAGAIN)
}

// UnlockByte releases the lock of one byte.
func UnlockByte(f *os.File, at int64) error {
	_, err := loop.Uninterrupted(func() (int, error) { return 0, setByte(f, at, unix.F_UNLCK) })
	return err
}

func setByte(f *os.File, at int64, kind int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1})
}
