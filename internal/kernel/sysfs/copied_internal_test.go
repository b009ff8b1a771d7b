package sysfs

import (
	"os"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// TestOpened: a FIFO that took the place of a regular file between the look and the open is not read.
func TestOpened(t *testing.T) {
	path := t.TempDir() + "/fifo"
	must.NoError(t, unix.Mkfifo(path, 0o644))
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must.NoError(t, err)
	_, err = opened(f)
	test.ErrorIs(t, err, hostfs.ErrNotRegular)
	test.ErrorIs(t, f.Close(), os.ErrClosed)
}
