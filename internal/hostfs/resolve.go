package hostfs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links Linux follows in one path (path_resolution(7)).
const maxLinks = 40

// Resolve follows the symbolic links of a path, as a process that has root as its / would:
// an absolute target starts there again, and .. ends there. A leading slash is optional. The
// result is a name for root's methods, with no link in it. Where a component does not
// exist, the error is fs.ErrNotExist, and the result is the file that a container runtime
// would make there.
func Resolve(root fs.ReadLinkFS, name string) (string, error) {
	return walk{root: root}.to(name)
}

// Stat describes a file, links followed. It opens nothing: it is safe on device nodes.
func Stat(root fs.ReadLinkFS, name string) (fs.FileInfo, error) {
	return walk{root: root}.stat(name)
}

// Lstat describes a file, with the links of its directory followed and its own not.
func Lstat(root fs.ReadLinkFS, name string) (fs.FileInfo, error) {
	return walk{root: root, keepLast: true}.stat(name)
}

// walk is one way to go along a path.
type walk struct {
	root     fs.ReadLinkFS
	keepLast bool                                // a link in the last place is the result
	visit    func(name string, info fs.FileInfo) // of each component, links included
}

func (w walk) stat(name string) (fs.FileInfo, error) {
	at, err := w.to(name)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Lstat(at)
	return info, OnHost(name, err)
}

func (w walk) to(name string) (string, error) {
	done, isDir, rest := ".", true, strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if !isDir { // a trailing slash asks for a directory, too
			return "", OnHost(name, syscall.ENOTDIR)
		}
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := w.root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return path.Join(append([]string{next}, rest...)...), OnHost(name, err)
		}
		if err != nil {
			return "", OnHost(name, err)
		}
		if w.visit != nil {
			w.visit(next, info)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done, isDir = next, info.IsDir()
			continue
		}
		if w.keepLast && len(rest) == 0 {
			return next, nil
		}
		if links++; links > maxLinks {
			return "", OnHost(name, syscall.ELOOP)
		}
		target, err := w.root.ReadLink(next)
		if err != nil {
			return "", OnHost(name, err)
		}
		if path.IsAbs(target) {
			done = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

// OnHost makes an error say the path on the host that was asked for, rather than the one
// below the directory; nil stays nil.
func OnHost(name string, err error) error {
	if err == nil {
		return nil
	}
	op, cause := "open", err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		op, cause = pe.Op, pe.Err
	}
	return &fs.PathError{Op: op, Path: path.Join("/", name), Err: cause}
}
