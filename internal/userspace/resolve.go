package userspace

import (
	"io/fs"
	"path"

	"github.com/rdma-dev/dra-driver-rdma/internal/hostfs"
)

// linkerName returns the path of a library with the symbolic links of its directory resolved and its file name kept:
// /lib64/libibverbs.so.1 becomes usr/lib64/libibverbs.so.1. The file name stays valid after a minor upgrade of the
// package. The present target of the link does not.
func linkerName(root fs.ReadLinkFS, name string) (string, error) {
	dir, err := hostfs.Resolve(root, path.Dir(name))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(name)), nil
}
