package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// maxFile bounds a file: a list of CPUs and a card's VPD have some pages. maxEntries bounds a directory: a host has
// some thousands of PCI functions.
const maxFile, maxEntries = 1 << 20, 1 << 16

// Below returns the sysfs below a host's root directory. If it is not the kernel's own, somebody may have planted files
// in it: it follows no link that leads out, opens regular files and directories only, and bounds what it reads. A link
// in the place of the sysfs itself is followed.
func Below(root string) fs.ReadLinkFS {
	dir := filepath.Join(root, "sys")
	var of unix.Statfs_t
	if unix.Statfs(dir, &of) == nil && of.Type == unix.SYSFS_MAGIC {
		return DirFS(dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() { // OpenRoot would wait for the writer of a FIFO
		return DirFS(dir) // it fails as os.Stat did, or since this is no directory
	}
	top, err := os.OpenRoot(dir)
	return copied{top, err}
}

// copied is the sysfs in a copy of a host.
type copied struct {
	top *os.Root
	err error // of opening it
}

// Open opens a regular file or a directory. It looks before it opens, which may have an effect on a device.
func (c copied) Open(name string) (fs.File, error) {
	info, err := c.Stat(name)
	if err == nil {
		err = openable(info)
	}
	if err != nil {
		return nil, err
	}
	f, err := c.top.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return opened(f)
}

// opened returns a file that was opened by name, which may refer to another file by now.
func opened(f *os.File) (fs.File, error) {
	info, err := f.Stat()
	if err == nil {
		err = openable(info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func openable(info fs.FileInfo) error {
	if !info.Mode().IsRegular() && !info.IsDir() {
		return hostfs.ErrNotRegular
	}
	return nil
}

// ReadFile reads a file of at most maxFile bytes.
func (c copied) ReadFile(name string) ([]byte, error) {
	data, err := readBounded(c, name)
	return data, hostfs.OnHost("sys/"+name, err)
}

// ReadDir lists a directory of at most maxEntries entries, sorted by name.
func (c copied) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := c.Open(name)
	if err != nil {
		return nil, hostfs.OnHost("sys/"+name, err)
	}
	defer f.Close()
	entries, err := hostfs.Entries(f, maxEntries)
	return entries, hostfs.OnHost("sys/"+name, err)
}

// Stat describes a file, and follows links.
func (c copied) Stat(name string) (fs.FileInfo, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.top.Stat(name)
}

// Lstat implements fs.ReadLinkFS.
func (c copied) Lstat(name string) (fs.FileInfo, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.top.Lstat(name)
}

// ReadLink implements fs.ReadLinkFS.
func (c copied) ReadLink(name string) (string, error) {
	if c.err != nil {
		return "", c.err
	}
	return c.top.Readlink(name)
}

// readBounded reads a file of at most maxFile bytes.
func readBounded(sys fs.FS, name string) ([]byte, error) {
	f, err := sys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := hostfs.ReadAll(f, maxFile)
	if errors.Is(err, hostfs.ErrTooLarge) {
		err = &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, err
}
