package installcheck_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/installcheck"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// check runs Check, and expects its result or its error to have some words.
func check(t *testing.T, c installcheck.Container, ok bool, words string) {
	t.Helper()
	found, err := c.Check()
	text := found
	if err != nil {
		text = err.Error()
	}
	if (err == nil) != ok || !strings.Contains(text, words) {
		t.Errorf("%q, %v, want %q", found, err, words)
	}
}

func TestContainer(t *testing.T) {
	dir := t.TempDir()
	c := installcheck.Container{Dir: dir, Memlock: "inherit"}
	check(t, c, false, "no uverbs node in "+dir+": nothing of the claim's CDI spec")
	node := filepath.Join(dir, "uverbs3")
	must.NoError(t, os.WriteFile(node, nil, 0o600))
	check(t, c, true, "uverbs3, locked memory ")

	var before unix.Rlimit
	must.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before))
	t.Cleanup(func() {
		test.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before))
	})
	must.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: before.Max}))
	c.Memlock = "unlimited"
	check(t, c, false, "locked memory is limited to 64 KiB, want unlimited: the hook did not raise it")
	c.Memlock = "65537"
	check(t, c, false, "want 65537")
	c.Memlock = "64Ki"
	check(t, c, true, "uverbs3, locked memory 64 KiB")
	c.Memlock = "much"
	check(t, c, false, `"much"`)
}

// TestContainerOpens: a node without a device behind it fails the check, but for hosts of tests.
func TestContainerOpens(t *testing.T) {
	dir := t.TempDir()
	// Number 240:63 is for local use (Documentation/admin-guide/devices.txt).
	if err := unix.Mknod(filepath.Join(dir, "uverbs0"), unix.S_IFCHR|0o600, int(unix.Mkdev(240, 63))); err != nil {
		needs.Missing(t, err)
	}
	c := installcheck.Container{Dir: dir, Memlock: "inherit"}
	_, err := c.Check()
	if os.IsPermission(err) { // a device cgroup, or a mount with nodev
		check(t, c, false, "the container may not use its device")
		return
	}
	check(t, c, false, "the kernel has no device behind the node")
	c.Fixture = true
	check(t, c, true, "uverbs0")
}
