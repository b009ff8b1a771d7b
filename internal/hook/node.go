package hook

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// NodeOwner is a device node that the container was given, and the RDMA device that it has to be of.
type NodeOwner struct {
	Device string // mlx5_0
	Node   string // uverbs0
	PCI    string // 0000:3b:00.0, "" where the device has no slot
	SF     string // the number of a subfunction, "" for none
}

// ParseNodeOwner reads IBDEV:NODE[@PCI[/SF]].
func ParseNodeOwner(s string) (n NodeOwner, err error) {
	names, slot, hasSlot := strings.Cut(s, "@")
	n.Device, n.Node, _ = strings.Cut(names, ":")
	n.PCI, n.SF, _ = strings.Cut(slot, "/")
	number, err := strconv.ParseUint(n.SF, 10, 32)
	if n.Device == "" || n.class() == "" || hasSlot != (n.PCI != "") || strings.ContainsAny(s, " \t\n") ||
		strings.Contains(names, "/") || strings.HasPrefix(n.PCI, ".") || n.SF != "" && (err != nil || strconv.FormatUint(number, 10) != n.SF) {
		return NodeOwner{}, errors.New(strconv.Quote(s) + " is not IBDEV:NODE@PCI, such as mlx5_0:uverbs0@0000:3b:00.0, or with a subfunction mlx5_2:uverbs2@0000:c1:00.0/88")
	}
	return n, nil
}

// class is the sysfs class of the node, "" of what is none.
func (n NodeOwner) class() string {
	for _, c := range [...]struct{ prefix, class string }{{"uverbs", "infiniband_verbs"}, {"umad", "infiniband_mad"}, {"issm", "infiniband_mad"}} {
		if number, ok := strings.CutPrefix(n.Node, c.prefix); ok {
			if _, err := strconv.ParseUint(number, 10, 32); err == nil {
				return c.class
			}
		}
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

// CheckNodes returns an error that names each node that is of another RDMA device now than when the container's
// devices were chosen: the kernel gives the numbers of nodes anew when a driver is loaded again. Sysfs has these
// classes for all namespaces. A kernel without any verbs node has none that could be another's: that is a warning.
func (h HostDevices) CheckNodes(want []NodeOwner) (warning string, err error) {
	sys := h.Sys
	if sys == "" {
		sys = "/sys"
	}
	if unix.Access(sys+"/class/infiniband_verbs", unix.F_OK) == unix.ENOENT {
		return "the kernel has no RDMA device nodes now (" + sys + "/class/infiniband_verbs is missing), so they are not checked", nil
	}
	var errs []error
	for _, n := range want {
		if err := n.check(sys); err != nil {
			errs = append(errs, wrap("node "+n.Node+" was given to the container as that of RDMA device "+n.Device+n.slot()+", and "+err.Error(), ErrRenumbered))
		}
	}
	return "", errors.Join(errs...)
}

// ErrRenumbered is in the error of a node that is another device's.
var ErrRenumbered = errors.New("the kernel has renumbered its RDMA devices; start the container again once its CDI spec is written anew, which the RDMA driver of a Kubernetes node does by itself")

// check reads what the kernel has under the node's name.
func (n NodeOwner) check(sys string) error {
	dir := sys + "/class/" + n.class() + "/" + n.Node
	device, err := HostFiles{}.Read(dir + "/ibdev")
	if err != nil {
		return wrap("that cannot be seen: read "+dir+"/ibdev", err)
	}
	if device = strings.TrimSpace(device); device != n.Device {
		return errors.New("it is that of " + device + " now")
	}
	if n.PCI == "" {
		return nil
	}
	carrier, err := baseOfLink(dir + "/device")
	if err != nil {
		return wrap("that cannot be seen: read "+dir+"/device", err)
	}
	if carrier == n.PCI && n.SF == "" {
		return nil
	}
	// What is no PCI function is an auxiliary device of one, whose name says nothing: mlx5_core.sf.4.
	path := sys + "/bus/pci/devices/" + n.PCI + "/" + carrier
	if carrier == n.PCI || unix.Access(path, unix.F_OK) != nil {
		return errors.New(n.Device + " sits on " + carrier + " now")
	}
	switch sf, err := (HostFiles{}).Read(path + "/sfnum"); {
	case err == unix.ENOENT && n.SF == "":
		return nil
	case err != nil:
		return wrap("that cannot be seen: read "+path+"/sfnum", err)
	case strings.TrimSpace(sf) != n.SF:
		return errors.New(n.Device + " sits on subfunction " + strings.TrimSpace(sf) + " of " + n.PCI + " now")
	}
	return nil
}

func baseOfLink(path string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(path, buf)
	if err != nil {
		return "", err
	}
	target := string(buf[:n])
	return target[strings.LastIndexByte(target, '/')+1:], nil
}
