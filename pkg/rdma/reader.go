package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// reader reads files of sysfs for one part of a snapshot, and records what it cannot
// read.
type reader struct {
	sys      fs.ReadLinkFS
	ibdev    string // the HCA of the problems
	problems []Problem
}

// problem records an error.
func (r *reader) problem(err error) {
	r.problems = append(r.problems, Problem{IBDev: r.ibdev, Message: err.Error()})
}

// list returns the names in a directory, sorted. A missing directory has none.
func (r *reader) list(dir string) []string {
	entries, err := fs.ReadDir(r.sys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(fmt.Errorf("list %s: %w", dir, err))
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// read returns the content of a file without its newline. A missing file is no problem,
// because drivers omit the attributes that they do not know.
func (r *reader) read(name string) string {
	s, _ := r.lookUp(name)
	return s
}

// lookUp is read for a file whose absence matters. It also reports whether the file
// exists.
func (r *reader) lookUp(name string) (content string, exists bool) {
	b, err := fs.ReadFile(r.sys, name)
	if err == nil {
		return strings.TrimSpace(string(b)), true
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	r.problem(fmt.Errorf("read attribute: %w", err))
	return "", true
}

// optional is read for files whose read may fail on a healthy device, such as the attributes
// of an empty GID slot (EINVAL) or sriov files of an unbound function.
func (r *reader) optional(name string) string { return attribute(r.sys, name) }

// parsed reads a file and parses its content. It returns the zero value if the
// file is absent or empty, and records a content that it cannot parse.
func parsed[T any](r *reader, name string, parse func(string) (T, error)) T {
	var zero T
	s := r.read(name)
	if s == "" {
		return zero
	}
	v, err := parse(s)
	if err != nil {
		r.problem(fmt.Errorf("read %s: %w", name, err))
		return zero
	}
	return v
}

// number parses a decimal count. It returns nil for -1 (numa_node).
func number(s string) (*int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, fmt.Errorf("parse number %q: %w", s, err)
	}
	if n < 0 {
		return nil, nil
	}
	return &n, nil
}

// link returns the last component of a link's target, "" if there is no link.
func (r *reader) link(name string) string {
	target, err := r.sys.ReadLink(name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// isName reports whether a name from a file or an event is usable as the name of a directory
// entry.
func isName(s string) bool {
	return fs.ValidPath(s) && s != "." && !strings.Contains(s, "/")
}

// realpath resolves a class entry to the device directory it links to. A class entry that
// is a directory itself, as in some copies of sysfs, resolves to itself.
func (r *reader) realpath(entry string) (string, error) {
	target, err := r.sys.ReadLink(entry)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrInvalid) {
		return entry, nil
	}
	if err != nil {
		return "", err
	}
	if path.IsAbs(target) {
		return strings.TrimPrefix(path.Clean(target), "/sys/"), nil
	}
	return path.Join(path.Dir(entry), target), nil
}

// parentDevice returns the directory of the device that carries an HCA: two
// levels up from .../infiniband/mlx5_0. For a class entry that is a directory
// itself, it follows the device link.
func (r *reader) parentDevice(real string) string {
	if !strings.HasPrefix(real, classInfiniband+"/") {
		return path.Dir(path.Dir(real))
	}
	target, err := r.sys.ReadLink(path.Join(real, "device"))
	if err != nil {
		return ""
	}
	return path.Join(real, target)
}

// inParallel calls f with each number below n, on all processors: a read of sysfs may wait for
// the firmware of a device, and on a host with a thousand functions system calls take four fifths
// of the time.
func inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	running := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		running <- struct{}{}
		all.Go(func() {
			f(i)
			<-running
		})
	}
	all.Wait()
}
