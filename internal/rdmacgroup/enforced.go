package rdmacgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errNoController says why limits on HCAs hold nowhere on a host.
var errNoController = errors.New("the host's kernel has no rdma cgroup controller (CONFIG_CGROUP_RDMA): " +
	"limits on handles and objects are for the scheduler's account only, and no container is held to them")

// Enforced returns why a host cannot hold containers to limits on their HCAs,
// nil if it can. Whether a runtime lets it do so is seen at each container.
func Enforced(hostRoot string) error {
	cgroups := filepath.Join(hostRoot, "sys/fs/cgroup")
	// Version 2 alone, or beside the hierarchies of version 1.
	for _, dir := range []string{cgroups, filepath.Join(cgroups, "unified")} {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err == nil && slices.Contains(strings.Fields(string(data)), "rdma") {
			return nil
		}
	}
	if info, err := os.Stat(filepath.Join(cgroups, "rdma")); err == nil && info.IsDir() {
		return nil
	}
	return errNoController
}
