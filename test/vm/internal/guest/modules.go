package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/kmod"
)

// modules loads kernel modules with what they depend on. It does what modprobe does,
// without a process for each.
type modules struct {
	dir   string
	index kmod.Index
}

// openModules reads the index of the running kernel's modules.
func openModules() (*modules, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, fmt.Errorf("find the kernel's version: %w", err)
	}
	dir := filepath.Join("/lib/modules", unix.ByteSliceToString(uts.Release[:]))
	index, err := kmod.Read(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return &modules{dir, index}, nil
}

// load loads modules and what they need; one that is loaded already is fine.
func (m *modules) load(names ...string) error {
	files, err := m.index.Files(names...)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := insert(filepath.Join(m.dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// insert loads the module in a file.
func insert(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open module", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.FinitModule(fd, "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "load module", Path: path, Err: err}
	}
	return nil
}
