package sysfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// eachWay runs a test with openat2, and as on a kernel before Linux 5.6.
func eachWay(t *testing.T, f func(*testing.T)) {
	t.Run("openat2", f)
	t.Run("without openat2", func(t *testing.T) {
		before := openat2
		t.Cleanup(func() { openat2 = before })
		openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, unix.ENOSYS }
		f(t)
	})
}

// TestStaysBelow: a tree that a stranger made has links to files of this host. None is followed.
func TestStaysBelow(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		top := t.TempDir()
		dir, out := filepath.Join(top, "report", "sys"), filepath.Join(top, "host")
		must.NoError(t, os.MkdirAll(filepath.Join(dir, "class"), 0o755))
		must.NoError(t, os.MkdirAll(filepath.Join(out, "d"), 0o755))
		must.NoError(t, os.WriteFile(filepath.Join(out, "secret"), []byte("of this host"), 0o644))
		must.NoError(t, os.Symlink("elsewhere", filepath.Join(out, "d", "link")))
		for name, target := range map[string]string{
			"class/file": out + "/secret", "class/up": "../../../host/secret", "class/dir": out, "class/updir": "../../../host",
		} {
			must.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
		}
		sys := DirFS(dir)
		for _, name := range []string{"class/file", "class/up", "class/dir/secret", "class/updir/secret"} {
			data, err := sys.ReadFile(name)
			test.Error(t, err, test.Sprintf("%s is read: %q", name, data))
			_, err = sys.Open(name)
			test.Error(t, err, test.Sprintf("%s is opened", name))
			info, err := sys.Stat(name)
			test.Error(t, err, test.Sprintf("%s is described: %v", name, info))
		}
		for _, name := range []string{"class/dir", "class/updir", "class/dir/d", "class/updir/d"} {
			entries, err := sys.ReadDir(name)
			test.Error(t, err, test.Sprintf("%s is listed: %v", name, entries))
		}
		for _, name := range []string{"class/dir/d/link", "class/updir/d/link"} {
			target, err := sys.ReadLink(name)
			test.Error(t, err, test.Sprintf("%s points at %s", name, target))
			info, err := sys.Lstat(name)
			test.Error(t, err, test.Sprintf("%s is described: %v", name, info))
		}
		target, err := sys.ReadLink("class/up") // what a link says is in the tree
		test.NoError(t, err)
		test.Eq(t, "../../../host/secret", target)
	})
}

// TestBounds: no file or directory of a stranger's tree takes much memory, and none blocks.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o644))
	must.NoError(t, os.Truncate(filepath.Join(dir, "sparse"), 1<<40))
	must.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	must.NoError(t, os.Mkdir(filepath.Join(dir, "many"), 0o755))
	for i := range maxEntries + 1 {
		must.NoError(t, os.Symlink("x", filepath.Join(dir, "many", fmt.Sprint(i))))
	}
	eachWay(t, func(t *testing.T) {
		sys := DirFS(dir)
		_, err := sys.ReadFile("sparse")
		test.ErrorIs(t, err, hostfs.ErrTooLarge)
		_, err = sys.ReadFile("fifo")
		test.ErrorIs(t, err, hostfs.ErrNotRegular)
		_, err = sys.Open("fifo")
		test.ErrorIs(t, err, hostfs.ErrNotRegular)
		_, err = sys.ReadDir("many")
		test.ErrorIs(t, err, hostfs.ErrTooMany)
		_, err = fs.Stat(sys, "fifo")
		test.NoError(t, err)
	})
}

// TestOpensNoDevice: to open a device node may have an effect.
func TestOpensNoDevice(t *testing.T) {
	needs.Root(t, "mknod")
	eachWay(t, func(t *testing.T) {
		dir := t.TempDir()
		must.NoError(t, unix.Mknod(filepath.Join(dir, "state"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5)))) // /dev/zero
		_, err := DirFS(dir).ReadFile("state")
		test.ErrorIs(t, err, hostfs.ErrNotRegular)
	})
}

// TestKernelsOwn: of a real sysfs, the package reads the attributes and links.
func TestKernelsOwn(t *testing.T) {
	sys := DirFS("/sys")
	want, err := os.ReadFile("/sys/class/net/lo/mtu")
	if err != nil {
		t.Skip(err)
	}
	got, err := sys.ReadFile("class/net/lo/mtu")
	must.NoError(t, err)
	test.Eq(t, string(want), string(got))
	target, err := sys.ReadLink("class/net/lo")
	must.NoError(t, err)
	test.Eq(t, "../../devices/virtual/net/lo", target)
	test.Eq(t, true, sys.top.kernels)
}
