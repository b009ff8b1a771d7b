package hostfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The reasons not to read a file or a directory.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrTooLarge   = errors.New("larger than such a file can be")
	ErrTooMany    = errors.New("too many entries")
)

// dirFS is a directory of this system. It opens no file outside of the directory, and no open blocks.
type dirFS struct {
	fs.ReadLinkFS
	dir string
}

// DirFS returns the file system below a directory, for the functions of this package. The directory may be missing at
// the time of the call.
func DirFS(dir string) fs.ReadLinkFS {
	return dirFS{os.DirFS(dir).(fs.ReadLinkFS), dir}
}

// Open implements fs.FS. A FIFO opens at once, without a writer.
func (d dirFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Open opens a regular file, and follows links. It returns ErrTooLarge if the size exceeds limit. The caller must close
// the file, and must bound its reads by limit, because some files of /proc report size 0.
func Open(root fs.ReadLinkFS, name string, limit int64) (fs.File, error) {
	at, err := Resolve(root, name)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat(at)
	if err == nil {
		err = readable(info, limit) // before the open, which may have an effect on a device
	}
	if err != nil {
		return nil, OnHost(name, err)
	}
	f, err := root.Open(at)
	if err != nil {
		return nil, OnHost(name, err)
	}
	if err := opened(f, limit); err != nil {
		f.Close()
		return nil, OnHost(name, err)
	}
	return f, nil
}

// opened checks the open file again, because the name may refer to another file by now.
func opened(f fs.File, limit int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return readable(info, limit)
}

func readable(info fs.FileInfo, limit int64) error {
	switch {
	case !info.Mode().IsRegular():
		return ErrNotRegular
	case info.Size() > limit:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, info.Size(), limit)
	}
	return nil
}

// ReadFile reads a regular file of at most limit bytes. It follows links.
func ReadFile(root fs.ReadLinkFS, name string, limit int64) ([]byte, error) {
	f, err := Open(root, name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := ReadAll(f, limit)
	return data, OnHost(name, err)
}

// MaxEntries bounds a directory of configuration files or CDI specs: a node has one spec for each prepared claim, and a
// file for each of a few programs.
const MaxEntries = 10_000

// HasDev reports whether /dev can be seen below a root directory. An empty one is only the place of a mount.
func HasDev(root fs.ReadLinkFS) bool {
	entries, err := ReadDir(root, "/dev", MaxEntries)
	return len(entries) > 0 || errors.Is(err, ErrTooMany)
}

// ReadDir lists a directory of at most limit entries, sorted by name. It follows links. It returns ErrTooMany for a
// larger directory.
func ReadDir(root fs.ReadLinkFS, name string, limit int) ([]fs.DirEntry, error) {
	entries, err := readDir(root, name, limit)
	return entries, OnHost(name, err)
}

func readDir(root fs.ReadLinkFS, name string, limit int) ([]fs.DirEntry, error) {
	at, err := Resolve(root, name)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat(at)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR // before the open, as for a file
	}
	if err != nil {
		return nil, err
	}
	f, err := root.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Entries(f, limit)
}

// Entries returns the entries of an open directory of at most limit of them, sorted by name, and else ErrTooMany.
func Entries(f fs.File, limit int) ([]fs.DirEntry, error) {
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, syscall.ENOTDIR
	}
	entries, err := dir.ReadDir(limit + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case len(entries) > limit:
		return nil, fmt.Errorf("%w: more than %d", ErrTooMany, limit)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// EachLocal calls visit for the entries of a directory of this system, in no order. It holds few of them in memory, so
// the directory may have any number. It ends with the first error of visit.
func EachLocal(dir string, visit func(fs.DirEntry) error) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := visit(e); err != nil {
				return err
			}
		}
	}
}

// ReadLocal reads a regular file of this system of at most limit bytes. It follows links.
func ReadLocal(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if statErr, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: statErr.Err} // the caller asked for the content
	}
	if err := readable(info, limit); err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = opened(f, limit)
	var data []byte
	if err == nil {
		data, err = ReadAll(f, limit)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

// ReadAll reads a file of at most limit bytes. It reads up to one byte more, to detect a larger one.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, err
}
