package userspace

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
)

// linker looks for libraries in a root.
type linker struct {
	*rdmacore.Linker
	root fs.ReadLinkFS
}

// newLinker reads the cache of a root and determines the directories that its dynamic linker searches. It treats a
// cache of another format as a missing one, as glibc does.
func newLinker(root fs.ReadLinkFS, machine elf.Machine) (*linker, error) {
	var cache rdmacore.Cache
	data, err := hostfs.ReadFile(root, "etc/ld.so.cache", rdmacore.MaxCache)
	if errors.Is(err, hostfs.ErrNotRegular) || errors.Is(err, hostfs.ErrTooLarge) {
		return nil, fmt.Errorf("read the names of libraries: %w", err)
	}
	if err == nil {
		cache, _ = rdmacore.ParseCache(data)
	}
	l, err := rdmacore.NewLinker(machine, cache, func(name string) (*rdmacore.Object, error) {
		return readObject(root, name, machine)
	})
	if err != nil {
		return nil, err
	}
	return &linker{l, root}, nil
}

// found is a library at the path where the dynamic linker found it.
type found struct {
	*rdmacore.Object
	// path is the fs name with the symbolic links of its directory resolved and its file name kept:
	// /lib64/libibverbs.so.1 becomes usr/lib64/libibverbs.so.1. The file name stays valid after a minor upgrade of the
	// package. The present target of the link does not.
	path string
	real string // the same file without symbolic links
}

// find returns the first library of a name that is for the machine.
func (l *linker) find(name string) (*found, error) {
	o, at, err := l.Find(name)
	if err != nil {
		return nil, err
	}
	return l.located(o, at)
}

// open reads the library at a path.
func (l *linker) open(name string) (*found, error) {
	o, err := l.Open(name)
	if err != nil {
		return nil, err
	}
	return l.located(o, name)
}

func (l *linker) located(o *rdmacore.Object, name string) (*found, error) {
	dir, err := hostfs.Resolve(l.root, path.Dir(name))
	if err != nil {
		return nil, err
	}
	return &found{o, path.Join(dir, path.Base(name)), o.Path}, nil
}

// readObject reads a shared library, and follows links. Its errors name the file without links.
func readObject(root fs.ReadLinkFS, name string, machine elf.Machine) (*rdmacore.Object, error) {
	real, err := hostfs.Resolve(root, name)
	if err != nil {
		return nil, err
	}
	f, err := hostfs.Open(root, real, rdmacore.MaxObject)
	if err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("read library /%s: %T has no random access", real, f)
	}
	o, err := rdmacore.ParseObject(r, machine)
	if err != nil {
		return nil, fmt.Errorf("read library /%s: %w", real, err)
	}
	o.Path = real
	return o, nil
}
