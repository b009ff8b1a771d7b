package mounttest_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
)

const file = "mounttest-was-here"

// TestIsolated: what is mounted over /dev is seen in there and not out here.
func TestIsolated(t *testing.T) {
	if !mounttest.Isolated(t) {
		if _, err := os.Lstat(filepath.Join("/dev", file)); err == nil {
			t.Errorf("/dev/%s is on the host", file)
		}
		return
	}
	mounttest.Tmpfs(t, "/dev", "size=64k")
	name := filepath.Join("/dev", file)
	must.NoError(t, os.WriteFile(name, nil, 0o600))
	mounttest.ReadOnly(t, "/dev")
	test.ErrorIs(t, os.Remove(name), syscall.EROFS)
}
