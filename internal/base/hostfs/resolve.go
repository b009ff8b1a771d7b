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

// Resolve follows the symbolic links of a path as a process would that has root as its /. An absolute target starts at
// root again, and .. never leaves root. A leading slash is optional. The result is a name for root's methods, without
// links. If a component is missing, the error is fs.ErrNotExist, and the result is the path where a container runtime
// would create the file.
func Resolve(root fs.ReadLinkFS, name string) (string, error) {
	return walk{root: root}.to(name)
}

// Stat describes a file, and follows links. It opens nothing, so it is safe on device nodes.
func Stat(root fs.ReadLinkFS, name string) (fs.FileInfo, error) {
	return walk{root: root}.stat(name)
}

// Lstat describes a file. It follows the links of the file's directory, but not a link in the last place.
func Lstat(root fs.ReadLinkFS, name string) (fs.FileInfo, error) {
	return walk{root: root, keepLast: true}.stat(name)
}

// walk is a way to resolve a path.
type walk struct {
	root     fs.ReadLinkFS
	keepLast bool                                // return a link in the last place, do not follow it
	visit    func(name string, info fs.FileInfo) // called for each component, links included
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
		if !isDir { // a trailing slash requires a directory, too
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

// OnHost returns an error that names the requested path on the host, instead of the path below the directory. It
// returns nil for nil.
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
