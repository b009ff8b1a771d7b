package sysfs_test

import (
	"os"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestKernelsOwn: the kernel's sysfs is read in the fast way. The count of test/bench has copies alone.
func TestKernelsOwn(t *testing.T) {
	if _, err := os.Stat("/sys/class/net/lo"); err != nil {
		needs.Missing(t, err)
	}
	_, fast := sysfs.Below("/").(sysfs.FS)
	must.True(t, fast)
}

// TestCopiedIsFIFO: what stands in the place of a copy's sysfs is not opened.
func TestCopiedIsFIFO(t *testing.T) {
	root := t.TempDir()
	must.NoError(t, unix.Mkfifo(root+"/sys", 0o644))
	_, err := sysfs.Below(root).Open("class")
	test.ErrorContains(t, err, "not a directory")
}
