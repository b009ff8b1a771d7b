// Package sysfs reads a sysfs tree with as few system calls as possible.
//
// An attribute of sysfs is a file of at most one page, so one read returns all of it. os.ReadFile does more: it asks
// for the size first, tries to register the file with the runtime's poller, and reads again to find the end. On a host
// with a thousand RDMA functions, this is half of the time of a scan.
package sysfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// FS is the tree below a directory of the host, usually /sys. It returns the same results and errors as os.DirFS, but
// no file of more than maxFile bytes.
type FS struct {
	fs.ReadLinkFS
	dir string
}

// DirFS returns the tree below dir. Like os.DirFS it opens no file.
func DirFS(dir string) FS {
	return FS{os.DirFS(dir).(fs.ReadLinkFS), dir}
}

// ReadDir lists a directory, sorted by name.
func (f FS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.ReadLinkFS, name) }

// Stat describes a file, and follows links.
func (f FS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.ReadLinkFS, name) }

// attributeSize is more than the size of a text attribute: the kernel prints it into one page (fs/sysfs/file.c). If a
// file fills the buffer, ReadFile reads it again in parts.
const attributeSize = 4096

// ReadFile reads a file. The caller owns the result.
func (f FS) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) || f.dir == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	fd, err := loop.Uninterrupted(func() (int, error) {
		return syscall.Open(f.dir+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var buf [attributeSize]byte // on the stack, because a scan reads tens of thousands of files
	n, err := loop.Uninterrupted(func() (int, error) { return syscall.Read(fd, buf[:]) })
	err = errors.Join(err, syscall.Close(fd))
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	case n == len(buf):
		return readBounded(f.ReadLinkFS, name)
	}
	return bytes.Clone(buf[:n]), nil
}
