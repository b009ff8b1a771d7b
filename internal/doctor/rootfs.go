package doctor

import (
	"io/fs"
	"path"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// rootFS reads files of a host by their absolute paths on it; see package hostfs.
type rootFS struct{ fs fs.ReadLinkFS }

// maxFile bounds what is read of a file. The longest are the mounts of a host with a hundred
// bytes each, and specs of a thousand devices.
const maxFile = 16 << 20

// ReadFile reads a regular file, links followed.
func (r rootFS) ReadFile(name string) ([]byte, error) { return hostfs.ReadFile(r.fs, name, maxFile) }

// ReadDir lists a directory, links followed.
func (r rootFS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := hostfs.Resolve(r.fs, name)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(r.fs, at)
	return entries, hostfs.OnHost(name, err)
}

// Stat describes a file, links followed. It opens nothing, and may be used on
// device nodes.
func (r rootFS) Stat(name string) (fs.FileInfo, error) { return hostfs.Stat(r.fs, name) }

// Lstat describes a file, the last link not followed.
func (r rootFS) Lstat(name string) (fs.FileInfo, error) { return hostfs.Lstat(r.fs, name) }

// realPath is the absolute path of a file with no link in it.
func (r rootFS) realPath(name string) (string, error) {
	at, err := hostfs.Resolve(r.fs, name)
	if err != nil {
		return "", err
	}
	return path.Join("/", at), nil
}
