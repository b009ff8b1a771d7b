package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// file is what the kernel or Resolve finds at a path: an inode, or an error.
type file struct {
	dev, ino uint64
	errno    syscall.Errno
}

func fileOf(err error, stat *syscall.Stat_t) file {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return file{errno: errno}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return file{errno: syscall.ENOENT}
	}
	if err != nil {
		return file{errno: ^syscall.Errno(0)}
	}
	return file{dev: uint64(stat.Dev), ino: stat.Ino}
}

// resolved is the file that Resolve and Stat find.
func resolved(dir, name string) file {
	info, err := Stat(DirFS(dir), name)
	if err != nil {
		return fileOf(err, nil)
	}
	return fileOf(nil, info.Sys().(*syscall.Stat_t))
}

// beneath is the file that openat2(RESOLVE_IN_ROOT) finds. Any user may ask for it.
func beneath(t *testing.T, dir, name string) file {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.NoError(t, err)
	defer unix.Close(root)
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	fd, err := unix.Openat2(root, name, how)
	for errors.Is(err, unix.EAGAIN) { // something was renamed or mounted anywhere on the machine: openat2(2)
		fd, err = unix.Openat2(root, name, how)
	}
	if err != nil {
		return fileOf(err, nil)
	}
	defer unix.Close(fd)
	var stat syscall.Stat_t
	return fileOf(syscall.Fstat(fd, &stat), &stat)
}

// inside is the files that a process with dir as its root finds.
func inside(t *testing.T, dir string, names []string) (found []file) {
	var err error
	thread.Do(func() {
		err = errors.Join(unix.Unshare(unix.CLONE_FS), unix.Chroot(dir), unix.Chdir("/"))
		for _, name := range names {
			var stat syscall.Stat_t
			found = append(found, fileOf(syscall.Stat(name, &stat), &stat))
		}
	})
	must.NoError(t, err)
	return found
}

// forest makes a random tree of directories, files and links of few names, so that most
// paths of these names lead somewhere.
func forest(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	for range 40 {
		at := filepath.Join(dir, strings.Join(elements(r, 3, "a", "b", "c"), "/"))
		var err error
		switch r.IntN(4) {
		case 0:
			err = os.MkdirAll(at, 0o755)
		case 1:
			err = os.WriteFile(at, nil, 0o644)
		default:
			target := strings.Join(elements(r, 4, "a", "b", "c", "..", ".", ""), "/")
			if r.IntN(2) == 0 {
				target = "/" + target
			}
			if target != "" {
				err = os.Symlink(target, at)
			}
		}
		if err != nil && !needless(err) {
			t.Fatal(err)
		}
	}
}

// needless errors are those of names that are taken, or lead nowhere.
func needless(err error) bool {
	return slices.ContainsFunc([]error{fs.ErrExist, fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.EISDIR},
		func(e error) bool {
			return errors.Is(err, e)
		})
}

func elements(r *rand.Rand, most int, of ...string) []string {
	out := make([]string, 1+r.IntN(most))
	for i := range out {
		out[i] = of[r.IntN(len(of))]
	}
	return out
}

// Resolve finds the file that the kernel finds, or fails with the same error.
func TestResolveIsTheKernels(t *testing.T) {
	const trees, paths = 60, 150
	seed := uint64(os.Getpid())
	r := rand.New(rand.NewPCG(seed, 1))
	outcomes := map[syscall.Errno]int{}
	for range trees {
		dir := t.TempDir()
		forest(t, r, dir)
		var names []string
		for range paths {
			names = append(names, "/"+strings.Join(elements(r, 6, "a", "b", "c", "..", ".", ""), "/"))
		}
		var chrooted []file
		if os.Geteuid() == 0 {
			chrooted = inside(t, dir, names)
		}
		for i, name := range names {
			got, want := resolved(dir, name), beneath(t, dir, name)
			if got != want && want.errno != syscall.ENOSYS {
				t.Errorf("seed %d, %s: Resolve finds %v, openat2 %v", seed, name, got, want)
			}
			if chrooted != nil && got != chrooted[i] {
				t.Errorf("seed %d, %s: Resolve finds %v, a process in there %v", seed, name, got, chrooted[i])
			}
			outcomes[got.errno]++
		}
		if t.Failed() {
			t.Log(listing(dir))
			return
		}
	}
	for _, errno := range []syscall.Errno{0, syscall.ENOENT, syscall.ELOOP, syscall.ENOTDIR} {
		test.GreaterEq(t, 20, outcomes[errno],
			test.Sprintf("only %d paths end with %q: the trees prove little", outcomes[errno], error(errno)))
	}
}

func listing(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
		target, _ := os.Readlink(name)
		fmt.Fprintf(&b, "\n%v %s %s", d.Type(), strings.TrimPrefix(name, dir), target)
		return nil
	})
	return b.String()
}

// The kernel follows 40 links in one path, and not 41.
func TestResolveCountsLinks(t *testing.T) {
	needs.Root(t, "chroot")
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "l0"), nil, 0o644))
	names := []string{}
	for i := range 42 {
		must.NoError(t, os.Symlink(fmt.Sprintf("/l%d", i), filepath.Join(dir, fmt.Sprintf("l%d", i+1))))
		names = append(names, fmt.Sprintf("/l%d", i+1))
	}
	for i, want := range inside(t, dir, names) {
		test.EqOp(t, want, resolved(dir, names[i]), test.Sprintf("%d links: Resolve finds", i+1))
	}
}
