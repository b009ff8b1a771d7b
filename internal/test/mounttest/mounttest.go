// Package mounttest runs a test in a mount namespace of its own, where it may
// mount over anything, /dev included, and nobody else sees it.
package mounttest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

const env = "MOUNTTEST"

// Isolated runs the calling test again, in a process with a mount namespace of its
// own. It returns true in that process, and false in the first one, with the
// result of the other one as its own:
//
//	if !mounttest.Isolated(t) {
//		return
//	}
//
// It skips the test where that is not allowed, and fails it with CI=true.
func Isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(env) == t.Name() {
		must.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), must.Sprint("make mounts private"))
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, fs.ErrPermission):
		needs.Missing(t, fmt.Errorf("a mount namespace of its own needs CAP_SYS_ADMIN: %w", err))
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Errorf("the test did not run:\n%s", out)
	}
	return false
}

// Tmpfs mounts a tmpfs on dir until the test ends.
func Tmpfs(t *testing.T, dir, options string) {
	t.Helper()
	must.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, options), must.Sprintf("mount tmpfs on %s", dir))
	t.Cleanup(func() {
		test.NoError(t, unix.Unmount(dir, unix.MNT_DETACH), test.Sprintf("unmount %s", dir))
	})
}

// ReadOnly makes the file system mounted on dir read-only.
func ReadOnly(t *testing.T, dir string) {
	t.Helper()
	must.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""),
		must.Sprintf("make %s read-only", dir))
}
