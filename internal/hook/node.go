package hook

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

func slot(n args.NodeOwner) string {
	switch {
	case n.PCI == "":
		return ""
	case n.SF == "":
		return " on " + n.PCI
	}
	return " on subfunction " + n.SF + " of " + n.PCI
}

// CheckNodes returns an error that names each node that now belongs to another RDMA device. The kernel renumbers nodes
// when a driver is reloaded. Sysfs shows these classes in all namespaces. A kernel without verbs nodes is only a
// warning: no node can belong to another device.
func (h HostDevices) CheckNodes(want []args.NodeOwner) (warning string, err error) {
	sys := cmp.Or(h.Sys, "/sys")
	if unix.Access(sys+"/class/infiniband_verbs", unix.F_OK) == unix.ENOENT {
		return "the RDMA device nodes are not checked, because the kernel has none now (" + sys +
			"/class/infiniband_verbs is missing)", nil
	}
	var errs []error
	for _, n := range want {
		if err := checkNode(n, sys); err != nil {
			errs = append(errs, fmt.Errorf("the container got node %s as that of RDMA device %s%s, but %w: %w",
				n.Node, n.IBDev, slot(n), err, ErrRenumbered))
		}
	}
	return "", errors.Join(errs...)
}

// ErrRenumbered is in the error of a node that belongs to another device.
var ErrRenumbered = errors.New("the kernel has renumbered its RDMA devices; write the CDI spec again (the RDMA " +
	"driver of a Kubernetes node does it by itself), then start the container again")

// checkNode compares the node with the kernel's node of that name.
func checkNode(n args.NodeOwner, sys string) error {
	const unknown = "its device is unknown: read "
	dir := sys + "/class/" + n.Class() + "/" + n.Node
	device, err := HostFiles{}.Read(dir + "/ibdev")
	if err != nil {
		return wrap(unknown+dir+"/ibdev", err)
	}
	if device = strings.TrimSpace(device); device != n.IBDev {
		return errors.New("it is that of " + device + " now")
	}
	if n.PCI == "" {
		return nil
	}
	target, err := os.Readlink(dir + "/device")
	if err != nil {
		return wrap(unknown+dir+"/device", cause(err))
	}
	parent := filepath.Base(target)
	if parent == n.PCI && n.SF == "" {
		return nil
	}
	// A parent that is not a PCI function is an auxiliary device of one. Its name (mlx5_core.sf.4) has no SF number.
	path := sys + "/bus/pci/devices/" + n.PCI + "/" + parent
	if parent == n.PCI || unix.Access(path, unix.F_OK) != nil {
		return fmt.Errorf("%s is on %s now", n.IBDev, parent)
	}
	switch sf, err := (HostFiles{}).Read(path + "/sfnum"); {
	case err == unix.ENOENT && n.SF == "":
		return nil
	case err != nil:
		return wrap(unknown+path+"/sfnum", err)
	case strings.TrimSpace(sf) != n.SF:
		return fmt.Errorf("%s is on subfunction %s of %s now", n.IBDev, strings.TrimSpace(sf), n.PCI)
	}
	return nil
}
