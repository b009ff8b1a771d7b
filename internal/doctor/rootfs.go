package doctor

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// rootFS reads files of a host by their absolute paths on it. A symbolic link
// leads where it leads on the host, also when the host's root is a directory of
// this system: /var/run is a link to /run on most distributions.
type rootFS struct{ fs fs.ReadLinkFS }

// maxLinks is what Linux follows (path_resolution(7)).
const maxLinks = 40

// resolve returns the name of an absolute path within the file system with no
// link in it, except for the last element if it is to be kept.
func (r rootFS) resolve(name string, keepLast bool) (string, error) {
	todo := split(name)
	done := "."
	for links := 0; len(todo) > 0; {
		next := path.Join(done, todo[0])
		todo = todo[1:]
		if todo0 := path.Base(next); todo0 == ".." { // above the root stands the root
			next = "."
		}
		info, err := r.fs.Lstat(next)
		if err != nil {
			return "", wrapPath(name, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 || len(todo) == 0 && keepLast {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", wrapPath(name, syscall.ELOOP)
		}
		target, err := r.fs.ReadLink(next)
		if err != nil {
			return "", wrapPath(name, err)
		}
		if path.IsAbs(target) {
			done = "."
		}
		todo = append(split(target), todo...)
	}
	return done, nil
}

func split(name string) []string {
	return strings.FieldsFunc(name, func(c rune) bool { return c == '/' })
}

// wrapPath says the path on the host, rather than the one within a file system.
func wrapPath(name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
}

// ReadFile reads a file, links followed.
func (r rootFS) ReadFile(name string) ([]byte, error) {
	at, err := r.resolve(name, false)
	if err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(r.fs, at)
	if err != nil {
		return nil, wrapPath(name, err)
	}
	return data, nil
}

// ReadDir lists a directory, links followed.
func (r rootFS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := r.resolve(name, false)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(r.fs, at)
	if err != nil {
		return nil, wrapPath(name, err)
	}
	return entries, nil
}

// Stat describes a file, links followed. It opens nothing, and may be used on
// device nodes.
func (r rootFS) Stat(name string) (fs.FileInfo, error) { return r.stat(name, false) }

// Lstat describes a file, the last link not followed.
func (r rootFS) Lstat(name string) (fs.FileInfo, error) { return r.stat(name, true) }

func (r rootFS) stat(name string, keepLast bool) (fs.FileInfo, error) {
	at, err := r.resolve(name, keepLast)
	if err != nil {
		return nil, err
	}
	info, err := r.fs.Lstat(at)
	if err != nil {
		return nil, wrapPath(name, err)
	}
	return info, nil
}

// realPath is the absolute path of a file with no link in it.
func (r rootFS) realPath(name string) (string, error) {
	at, err := r.resolve(name, false)
	if err != nil {
		return "", err
	}
	return path.Join("/", at), nil
}
