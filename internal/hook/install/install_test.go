package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// source writes a binary to install.
func source(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rdma-hook")
	must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// identity is what changes when a file is replaced.
func identity(t *testing.T, path string) (inode uint64, mode fs.FileMode) {
	t.Helper()
	var st unix.Stat_t
	info, err := os.Lstat(path)
	if err == nil {
		err = unix.Stat(path, &st)
	}
	must.NoError(t, err)
	return st.Ino, info.Mode()
}

func TestInstall(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	dir := filepath.Join(t.TempDir(), "opt", "bin")
	src := source(t, "one")
	path, err := Install(src, dir, "v1.2.3-rc.1+dirty")
	if err != nil || path != dir+"/rdma-hook-v1.2.3-rc.1+dirty" {
		t.Fatalf("Install = %q, %v", path, err)
	}
	first, mode := identity(t, path)
	test.Eq(t, 0o755, mode, test.Sprint("mode"))
	if _, err := Install(src, dir, "v1.2.3-rc.1+dirty"); err != nil {
		t.Fatal(err)
	}
	if again, _ := identity(t, path); again != first {
		t.Error("an unchanged binary was written again")
	}
	if _, err := Install(source(t, "two"), dir, "v1.2.3-rc.1+dirty"); err != nil {
		t.Fatal(err)
	}
	content, _ := os.ReadFile(path)
	if changed, _ := identity(t, path); changed == first || string(content) != "two" {
		t.Errorf("a changed binary of the same length: inode %d, was %d, content %q", changed, first, content)
	}
	must.NoError(t, os.Chmod(path, 0o644))
	if _, err := Install(source(t, "two"), dir, "v1.2.3-rc.1+dirty"); err != nil {
		t.Fatal(err)
	}
	if _, mode := identity(t, path); mode != 0o755 {
		t.Errorf("mode %v, want it repaired", mode)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("directory holds %v", entries)
	}
}

// A symbolic link under our name is replaced, not followed.
func TestInstallReplacesLink(t *testing.T) {
	dir, target := t.TempDir(), source(t, "target")
	must.NoError(t, os.Symlink(target, Path(dir, "v1")))
	if _, err := Install(source(t, "hook"), dir, "v1"); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(target); string(content) != "target" {
		t.Error("the link's target was overwritten")
	}
}

// As root, a directory that others can write to gets no hook: they could put a program of
// theirs in its place, which runtimes would run as root. Nor does a file of theirs count
// as installed, whatever it holds.
func TestInstallReplaceable(t *testing.T) {
	needs.Root(t, "changing owners")
	const user = 4711
	for name, change := range map[string]func(dir string) error{
		"directory of a user":   func(dir string) error { return os.Chown(dir, user, 0) },
		"directory for a group": func(dir string) error { return os.Chmod(dir, 0o775) },
		"parent of a user":      func(dir string) error { return os.Chown(filepath.Dir(dir), user, 0) },
	} {
		dir := filepath.Join(t.TempDir(), "opt", "bin")
		must.NoError(t, errors.Join(os.MkdirAll(dir, 0o755), change(dir)))
		path, err := Install(source(t, "hook"), dir, "v1")
		if !errors.Is(err, hostfs.ErrReplaceable) || path != "" || !strings.Contains(err.Error(), "install hook: ") {
			t.Errorf("%s: Install = %q, %v", name, path, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("%s: a refused Install left %v", name, entries)
		}
	}
	dir := t.TempDir()
	path, err := Install(source(t, "hook"), dir, "v1")
	must.NoError(t, errors.Join(err, os.Chown(path, user, user)))
	if _, err := Install(source(t, "hook"), dir, "v1"); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Uid != 0 {
		t.Errorf("the hook is of user %d, %v", st.Uid, err)
	}
}

func TestInstallErrors(t *testing.T) {
	dir, src := t.TempDir(), source(t, "hook")
	must.NoError(t, os.Mkdir(Path(dir, "taken"), 0o755))
	for name, tt := range map[string]struct{ src, dir, version, inError string }{
		"no version":    {src, dir, "", `version "" is not usable`},
		"path":          {src, dir, "../../bin/sh", "is not usable in a file name"},
		"hidden":        {src, dir, ".v1", "is not usable"},
		"relative":      {src, "bin", "v1", `directory "bin" is not an absolute path`},
		"no source":     {src + "-missing", dir, "v1", "read its binary: open " + src + "-missing"},
		"empty source":  {os.DevNull, dir, "v1", "is empty"},
		"file as dir":   {src, src, "v1", "make its directory: mkdir " + src},
		"dir in place":  {src, dir, "taken", "a directory is in its place: remove it"},
		"unwritable fs": {src, "/proc/self", "v1", "/proc/self/"},
	} {
		path, err := Install(tt.src, tt.dir, tt.version)
		if err == nil || path != "" || !strings.Contains(err.Error(), tt.inError) {
			t.Errorf("%s: Install = %q, %v; want an error with %q", name, path, err, tt.inError)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a failed Install left %v", entries)
	}
}

// Two drivers of a rolling update start at the same time.
func TestInstallConcurrently(t *testing.T) {
	dir, src := t.TempDir(), source(t, strings.Repeat("hook", 1<<18))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			path, err := Install(src, dir, "v1")
			content, readErr := os.ReadFile(path)
			if err != nil || readErr != nil || len(content) != 4<<18 {
				t.Errorf("%v, %v, %d bytes", err, readErr, len(content))
			}
		})
	}
	wg.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("directory holds %v", entries)
	}
}

// onMount runs f in a mount namespace of its own with a tmpfs on dir.
func onMount(t *testing.T, dir string, flags uintptr, f func()) {
	t.Helper()
	var err error
	thread.Do(func() {
		err = unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", flags, "size=64k")
		}
		if err == nil {
			f()
		}
	})
	switch {
	case errors.Is(err, unix.EPERM):
		needs.Missing(t, fmt.Errorf("mounting needs CAP_SYS_ADMIN: %w", err))
	case err != nil:
		t.Fatal(err)
	}
}

func TestInstallRefusesNoexec(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space")
	must.NoError(t, os.Mkdir(dir, 0o755))
	src := source(t, "hook")
	onMount(t, dir, unix.MS_NOEXEC, func() {
		_, err := Install(src, dir+"/bin", "v1")
		want := `directory "` + dir + `/bin" is on the mount "` + dir + `", which is mounted noexec`
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "choose a directory elsewhere") {
			t.Errorf("Install: %v, want an error with %q", err, want)
		}
	})
}

func TestInstallOnFullDisk(t *testing.T) {
	dir, src := t.TempDir(), source(t, strings.Repeat("hook", 1<<18))
	onMount(t, dir, 0, func() {
		_, err := Install(src, dir, "v1")
		if entries, _ := os.ReadDir(dir); !errors.Is(err, unix.ENOSPC) || len(entries) != 0 {
			t.Errorf("Install: %v, directory holds %v; want ENOSPC and nothing", err, entries)
		}
	})
}

func TestFindMount(t *testing.T) {
	const mountinfo = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:24 / /run rw,nosuid,noexec shared:2 - tmpfs tmpfs rw
short line
32 22 0:25 / /mnt/a\040b\134c rw - tmpfs tmpfs rw
`
	for id, want := range map[uint64]string{22: "/", 31: "/run", 32: `/mnt/a b\c`, 33: ""} {
		test.Eq(t, want, findMount(mountinfo, id), test.Sprintf("findMount(%d)", id))
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * tempMaxAge)
	stays := []string{"rdma-hook", "rdma-hook-", "rdma-hook-v3", "my-rdma-hook-v1", "rdma-hook-v1 copy", "rdma-hookx-v1",
		".rdma.dev-123.tmp", "nvidia-cdi-hook", "rdma-hook-.hidden", ".other.1.tmp"}
	goes, temporary := []string{"rdma-hook-v1", "rdma-hook-v1.0.0_a+b"}, ".rdma.dev-77.tmp"
	for _, name := range slices.Concat(stays, goes, []string{temporary}) {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	for _, name := range []string{temporary, ".other.1.tmp"} {
		must.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	must.NoError(t, os.Mkdir(dir+"/rdma-hook-directory", 0o755))
	must.NoError(t, os.Symlink("rdma-hook-v3", dir+"/rdma-hook-link"))
	removed, err := Prune(dir, func(path string) bool { return path == Path(dir, "v3") })
	for i := range removed {
		removed[i] = filepath.Base(removed[i])
	}
	if slices.Sort(removed); err != nil || !slices.Equal(removed, goes) {
		t.Errorf("Prune removed %q, %v; want %q", removed, err, goes)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != len(stays)+2 {
		t.Errorf("left: %v, want %v, a directory and a link", entries, stays)
	}
}

func TestPruneErrors(t *testing.T) {
	keepNone := func(string) bool { return false }
	if removed, err := Prune(t.TempDir()+"/missing", keepNone); removed != nil || err != nil {
		t.Errorf("missing directory: %v, %v", removed, err)
	}
	if _, err := Prune(source(t, "x"), keepNone); err == nil {
		t.Error("a file for a directory: no error")
	}
	dir := t.TempDir()
	onMount(t, dir, 0, func() {
		test.NoError(t, os.WriteFile(Path(dir, "v1"), nil, 0o755))
		test.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		if removed, err := Prune(dir, keepNone); len(removed) > 0 || !errors.Is(err, unix.EROFS) {
			t.Errorf("read-only directory: %v, %v", removed, err)
		}
	})
}
