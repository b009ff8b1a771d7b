package flock

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// LockByte takes the exclusive lock of one byte of a file, which need not be that long (fcntl(2), open file
// description locks). Of one open file the locks do not exclude each other: its users take turns by
// themselves. Its error is that of ctx if another open file has the lock until ctx ends.
func LockByte(ctx context.Context, f *os.File, at int64) error {
	return wait(ctx, func() error { return setByte(f, at, unix.F_WRLCK) }, unix.EAGAIN)
}

// UnlockByte drops the lock.
func UnlockByte(f *os.File, at int64) error {
	for {
		if err := setByte(f, at, unix.F_UNLCK); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func setByte(f *os.File, at int64, kind int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1})
}
