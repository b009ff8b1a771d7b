package doctor

import (
	"io/fs"
	"path"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// rootFS reads files of a host by their absolute paths on the host (package hostfs).
type rootFS struct{ fs fs.ReadLinkFS }

// maxFile bounds the size of a file that is read. The longest are a host's list of mounts and specs of a thousand
// devices.
const maxFile = 16 << 20

// ReadFile reads a regular file. It follows links.
func (r rootFS) ReadFile(name string) ([]byte, error) { return hostfs.ReadFile(r.fs, name, maxFile) }

// ReadDir lists a directory. It follows links.
func (r rootFS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := hostfs.Resolve(r.fs, name)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(r.fs, at)
	return entries, hostfs.OnHost(name, err)
}

// Stat describes a file. It follows links. It opens nothing, so it is safe for device nodes.
func (r rootFS) Stat(name string) (fs.FileInfo, error) { return hostfs.Stat(r.fs, name) }

// Lstat describes a file. It does not follow a link in the last component.
func (r rootFS) Lstat(name string) (fs.FileInfo, error) { return hostfs.Lstat(r.fs, name) }

// realPath returns the absolute path of a file without links.
func (r rootFS) realPath(name string) (string, error) {
	at, err := hostfs.Resolve(r.fs, name)
	if err != nil {
		return "", err
	}
	return path.Join("/", at), nil
}
