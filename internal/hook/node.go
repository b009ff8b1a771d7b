package hook

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// NodeOwner is a device node of the container, and the RDMA device that it must belong to.
type NodeOwner struct {
	Device string // mlx5_0
	Node   string // uverbs0
	PCI    string // 0000:3b:00.0, "" if the device is not a PCI device
	SF     string // the number of a subfunction, "" for none
}

// ParseNodeOwner parses IBDEV:NODE[@PCI[/SF]].
func ParseNodeOwner(s string) (n NodeOwner, err error) {
	names, slot, hasSlot := strings.Cut(s, "@")
	n.Device, n.Node, _ = strings.Cut(names, ":")
	n.PCI, n.SF, _ = strings.Cut(slot, "/")
	number, err := strconv.ParseUint(n.SF, 10, 32)
	badSF := n.SF != "" && (err != nil || strconv.FormatUint(number, 10) != n.SF)
	if n.Device == "" || n.class() == "" || hasSlot != (n.PCI != "") || strings.ContainsAny(s, " \t\n") ||
		strings.Contains(names, "/") || strings.HasPrefix(n.PCI, ".") || badSF {
		return NodeOwner{}, fmt.Errorf("%q is not IBDEV:NODE@PCI, such as mlx5_0:uverbs0@0000:3b:00.0, or with a "+
			"subfunction mlx5_2:uverbs2@0000:c1:00.0/88", s)
	}
	return n, nil
}

// class returns the sysfs class of the node, "" if the node has an unknown name.
func (n NodeOwner) class() string {
	kind := strings.TrimRight(n.Node, "0123456789")
	if _, err := strconv.ParseUint(n.Node[len(kind):], 10, 32); err != nil {
		return ""
	}
	switch kind {
	case "uverbs":
		return "infiniband_verbs"
	case "umad", "issm":
		return "infiniband_mad"
	}
	return ""
}

func (n NodeOwner) slot() string {
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
func (h HostDevices) CheckNodes(want []NodeOwner) (warning string, err error) {
	sys := cmp.Or(h.Sys, "/sys")
	if unix.Access(sys+"/class/infiniband_verbs", unix.F_OK) == unix.ENOENT {
		return "the RDMA device nodes are not checked, because the kernel has none now (" + sys +
			"/class/infiniband_verbs is missing)", nil
	}
	var errs []error
	for _, n := range want {
		if err := n.check(sys); err != nil {
			errs = append(errs, fmt.Errorf("the container got node %s as that of RDMA device %s%s, but %w: %w",
				n.Node, n.Device, n.slot(), err, ErrRenumbered))
		}
	}
	return "", errors.Join(errs...)
}

// ErrRenumbered is in the error of a node that belongs to another device.
var ErrRenumbered = errors.New("the kernel has renumbered its RDMA devices; write the CDI spec again (the RDMA " +
	"driver of a Kubernetes node does it by itself), then start the container again")

// check compares the node with the kernel's node of that name.
func (n NodeOwner) check(sys string) error {
	const unknown = "its device is unknown: read "
	dir := sys + "/class/" + n.class() + "/" + n.Node
	device, err := HostFiles{}.Read(dir + "/ibdev")
	if err != nil {
		return wrap(unknown+dir+"/ibdev", err)
	}
	if device = strings.TrimSpace(device); device != n.Device {
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
		return fmt.Errorf("%s is on %s now", n.Device, parent)
	}
	switch sf, err := (HostFiles{}).Read(path + "/sfnum"); {
	case err == unix.ENOENT && n.SF == "":
		return nil
	case err != nil:
		return wrap(unknown+path+"/sfnum", err)
	case strings.TrimSpace(sf) != n.SF:
		return fmt.Errorf("%s is on subfunction %s of %s now", n.Device, strings.TrimSpace(sf), n.PCI)
	}
	return nil
}
