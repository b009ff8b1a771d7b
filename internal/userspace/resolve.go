package userspace

import (
	"io/fs"
	"path"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// linkerName returns the path of a library with the links of its directory
// resolved and its own name kept: /lib64/libibverbs.so.1 is
// usr/lib64/libibverbs.so.1. The name outlives a minor upgrade of the package; the
// file that it leads to today does not.
func linkerName(root fs.ReadLinkFS, name string) (string, error) {
	dir, err := hostfs.Resolve(root, path.Dir(name))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(name)), nil
}
