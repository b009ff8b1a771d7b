// Package sysfs reads a sysfs tree with as few system calls as possible.
//
// An attribute of sysfs is a file of at most one page, so one read returns all of it. os.ReadFile does more: it asks
// for the size first, tries to register the file with the runtime's poller, and reads again to find the end. On a host
// with a thousand RDMA functions, this is half of the time of a scan.
//
// The tree may also be a copy that a stranger made, such as an unpacked report. Then the rules of package hostfs hold:
// no link leads out of the tree, only regular files are opened, and each read has a bound. The package does not use
// hostfs, which resolves each component of a path by itself: that takes ten times as many system calls.
package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// FS is the tree below a directory of the host, usually /sys. It returns the results and errors of os.Root.
type FS struct{ top *top }

// top is the directory. The first use opens it, and the garbage collector closes it.
type top struct {
	path string

	mu      sync.Mutex
	root    *os.Root
	dir     *os.File // of root
	kernels bool     // a real sysfs: the kernel is its only author, and no link leads out
}

// DirFS returns the tree below dir. Like os.DirFS it opens no file.
func DirFS(dir string) FS { return FS{&top{path: dir}} }

// maxFile and maxEntries bound what is read. Text in sysfs has at most one page, and the product data of a PCI card has
// at most 32 KiB.
const (
	maxFile    = 1 << 20
	maxEntries = 1 << 16
)

var openat2 = unix.Openat2 // a test replaces it

// Open implements fs.FS. It opens regular files and directories.
func (f FS) Open(name string) (fs.File, error) {
	fd, err := f.open(name, 0)
	if err != nil {
		return nil, failed("open", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Stat describes a file, and follows links.
func (f FS) Stat(name string) (fs.FileInfo, error) {
	return describe(f, "stat", name, (*os.Root).Stat)
}

// Lstat describes a file. It does not follow a link in the last place.
func (f FS) Lstat(name string) (fs.FileInfo, error) {
	return describe(f, "lstat", name, (*os.Root).Lstat)
}

func describe(f FS, op, name string, by func(*os.Root, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	err := f.top.open(name)
	var info fs.FileInfo
	if err == nil {
		info, err = by(f.top.root, name)
	}
	return info, failed(op, name, err)
}

// ReadLink returns the target of a link.
func (f FS) ReadLink(name string) (string, error) {
	if err := f.top.open(name); err != nil {
		return "", failed("readlink", name, err)
	}
	defer runtime.KeepAlive(f.top)
	at, base := int(f.top.dir.Fd()), name
	if !f.top.kernels {
		parent, err := f.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return "", failed("readlink", name, err)
		}
		defer unix.Close(parent)
		at, base = parent, path.Base(name)
	}
	var buf [unix.PathMax]byte
	n, err := loop.Uninterrupted(func() (int, error) { return unix.Readlinkat(at, base, buf[:]) })
	return string(buf[:max(n, 0)]), failed("readlink", name, err)
}

// ReadDir lists a directory, sorted by name.
func (f FS) ReadDir(name string) ([]fs.DirEntry, error) {
	fd, err := f.open(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, failed("open", name, err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	entries, err := dir.ReadDir(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, failed("readdir", name, err)
	case len(entries) > maxEntries:
		return nil, failed("readdir", name, fmt.Errorf("%w: more than %d", hostfs.ErrTooMany, maxEntries))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// attributeSize is more than the size of a text attribute: the kernel prints it into one page (fs/sysfs/file.c).
const attributeSize = 4096

// ReadFile reads a regular file. The caller owns the result.
func (f FS) ReadFile(name string) ([]byte, error) {
	fd, err := f.open(name, 0)
	if err != nil {
		return nil, failed("open", name, err)
	}
	var buf [attributeSize]byte // on the stack, because a scan reads tens of thousands of files
	n, err := loop.Uninterrupted(func() (int, error) { return unix.Read(fd, buf[:]) })
	if err == nil && n == len(buf) {
		return readRest(fd, name, buf[:])
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return nil, failed("read", name, err)
	}
	return bytes.Clone(buf[:n]), nil
}

// readRest reads the rest of a file after its first bytes, and closes it.
func readRest(fd int, name string, begin []byte) ([]byte, error) {
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	rest, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err == nil && len(rest) == maxFile {
		err = fmt.Errorf("%w: more than %d bytes", hostfs.ErrTooLarge, maxFile)
	}
	if err != nil {
		return nil, failed("read", name, err)
	}
	return append(bytes.Clone(begin), rest...), nil
}

// open returns a descriptor of a regular file or a directory below the top.
func (f FS) open(name string, flags int) (int, error) {
	if err := f.top.open(name); err != nil {
		return -1, err
	}
	defer runtime.KeepAlive(f.top)
	dir := int(f.top.dir.Fd())
	flags |= unix.O_RDONLY | unix.O_CLOEXEC
	if f.top.kernels {
		return loop.Uninterrupted(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
	}
	if flags&unix.O_DIRECTORY == 0 {
		flags |= unix.O_NONBLOCK // a FIFO would wait for a writer
		var stat unix.Stat_t     // before the open, which may have an effect on a device
		err := unix.Fstatat(dir, name, &stat, 0)
		if kind := stat.Mode & unix.S_IFMT; err == nil && kind != unix.S_IFREG && kind != unix.S_IFDIR {
			return -1, hostfs.ErrNotRegular
		}
	}
	fd, err := loop.Uninterrupted(func() (int, error) {
		return openat2(dir, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH})
	})
	switch err {
	case unix.ENOSYS, unix.EPERM, // before Linux 5.6, or behind a seccomp filter
		unix.EAGAIN, // something was renamed or mounted meanwhile, anywhere on the host: openat2(2)
		unix.EXDEV:  // the path leads out: os.Root says so in words
		return f.top.openSlowly(name, flags)
	}
	return fd, err
}

// openSlowly is open by os.Root, which opens each component of the path.
func (t *top) openSlowly(name string, flags int) (int, error) {
	file, err := t.root.OpenFile(name, flags, 0)
	if err != nil {
		return -1, err
	}
	defer file.Close()
	return unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// open opens the top for a look at a name.
func (t *top) open(name string) error {
	if !fs.ValidPath(name) || t.path == "" {
		return fs.ErrInvalid
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dir != nil {
		return nil
	}
	root, err := os.OpenRoot(t.path)
	if err != nil {
		return err
	}
	dir, err := root.Open(".")
	if err != nil {
		return errors.Join(err, root.Close())
	}
	var stat unix.Statfs_t
	err = unix.Fstatfs(int(dir.Fd()), &stat)
	t.root, t.dir, t.kernels = root, dir, err == nil && stat.Type == unix.SYSFS_MAGIC
	return nil
}

// failed returns an error that names the path below the top, nil for nil.
func failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
