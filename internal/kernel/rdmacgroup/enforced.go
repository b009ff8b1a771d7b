package rdmacgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// errNoController is the error for a host that cannot enforce limits on HCAs.
var errNoController = errors.New("the host's kernel has no rdma cgroup controller (CONFIG_CGROUP_RDMA): " +
	"limits on handles and objects are for the scheduler's account only, and no container is held to them")

// Enforced returns the reason why a host cannot enforce limits of containers on their HCAs, or nil if it can. Whether a
// runtime supports the limits shows only at each container.
func Enforced(hostRoot string) error {
	cgroups := filepath.Join(hostRoot, "sys/fs/cgroup")
	// Version 2 alone, or version 2 beside the hierarchies of version 1.
	for _, dir := range []string{cgroups, filepath.Join(cgroups, "unified")} {
		data, err := hostfs.ReadLocal(filepath.Join(dir, "cgroup.controllers"), 4<<10)
		if err == nil && slices.Contains(strings.Fields(string(data)), "rdma") {
			return nil
		}
	}
	if info, err := os.Stat(filepath.Join(cgroups, "rdma")); err == nil && info.IsDir() {
		return nil
	}
	return errNoController
}
