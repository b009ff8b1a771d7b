// Package capture takes the RDMA part of a running host's sysfs into a tree ([Host]). [Scrub] then takes out what
// identifies the host.
//
// A capture has the RDMA devices with their ports, their character devices, the netdevs, every PCI function that is a
// network, fabric or display device or an accelerator, all that stands above them up to the PCI root, and the links of
// /sys/class and /sys/bus between them. It has no counters of the connection manager, no serial numbers, and of a GID
// table only the slots in use and two empty ones.
package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
)

// rdmaClasses are taken whole.
var rdmaClasses = []string{"infiniband", "infiniband_verbs", "infiniband_mad", "infiniband_cm", "hfi1_user"}

// deviceFiles are the attributes of a device on a bus that are taken.
var deviceFiles = map[string]bool{
	"vendor": true, "device": true, "subsystem_vendor": true, "subsystem_device": true, "class": true, "revision": true,
	"numa_node": true, "local_cpulist": true, "uevent": true, "modalias": true, "sfnum": true,
	"max_link_speed": true, "max_link_width": true, "current_link_speed": true, "current_link_width": true,
	"sriov_totalvfs": true, "sriov_numvfs": true, "sriov_vf_device": true, "sriov_offset": true, "sriov_stride": true,
	"driver": true, "subsystem": true, "physfn": true,
}

// netdevFiles are the attributes of a netdev that are taken.
var netdevFiles = map[string]bool{
	"address": true, "carrier": true, "dev_id": true, "dev_port": true, "flags": true, "ifindex": true, "mtu": true,
	"operstate": true, "type": true, "uevent": true, "speed": true, "phys_port_name": true, "phys_switch_id": true,
	"device": true, "subsystem": true, "master": true,
}

// Host captures the host whose /sys is given. It reads files one after the other, as any program does, so devices that
// come or go meanwhile appear half.
func Host(sys fs.ReadLinkFS) (*tree.Tree, error) {
	c := &capturer{sys: sys, tree: &tree.Tree{}, ndevs: map[string]bool{"lo": true}, seen: make(map[string]bool)}
	c.optional("module/ib_core/parameters/netns_mode")
	for _, class := range rdmaClasses {
		c.class(class)
	}
	c.keepDir("class/misc")
	if slices.Contains(c.list("class/misc"), "rdma_cm") {
		c.member("class/misc/rdma_cm", anyFile)
	}
	c.pci()
	c.auxiliary()
	c.netdevs()
	if c.err != nil {
		return nil, fmt.Errorf("capture sysfs: %w", c.err)
	}
	if err := Complete(c.tree); err != nil {
		return nil, fmt.Errorf("capture sysfs: %w", err)
	}
	return c.tree, nil
}

type capturer struct {
	sys   fs.ReadLinkFS
	tree  *tree.Tree
	err   error
	ndevs map[string]bool // names of netdevs to take
	seen  map[string]bool // device directories that are taken
}

func anyFile(string) bool { return true }

// list returns the names in a directory, none if it is not there.
func (c *capturer) list(dir string) []string {
	entries, err := fs.ReadDir(c.sys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.stop(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (c *capturer) stop(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *capturer) write(e tree.Entry) {
	if _, taken := c.tree.Lookup(e.Path); taken && e.Kind != tree.Dir {
		return
	}
	if c.err == nil {
		c.stop(c.tree.Write(e))
	}
}

// keepDir takes a directory that may turn out to be empty.
func (c *capturer) keepDir(dir string) {
	if info, err := c.sys.Lstat(dir); err == nil && info.IsDir() {
		c.write(tree.Entry{Path: "sys/" + dir, Kind: tree.Dir})
	}
}

// optional takes a file or link if it is there.
func (c *capturer) optional(name string) {
	if _, err := c.sys.Lstat(name); err == nil {
		c.take(name)
	}
}

// take takes one file or link as it is; of one that cannot be read, the error.
func (c *capturer) take(name string) {
	e := tree.Entry{Path: "sys/" + name}
	info, err := c.sys.Lstat(name)
	switch {
	case err != nil:
	case info.Mode()&fs.ModeSymlink != 0:
		e.Kind = tree.Link
		e.Target, err = c.sys.ReadLink(name)
	case info.Mode()&0o444 == 0: // a control file, write-only
		return
	default:
		var data []byte
		data, err = fs.ReadFile(c.sys, name)
		e.Data = string(data)
	}
	if err != nil {
		c.broken(name, err)
		return
	}
	c.write(e)
}

func (c *capturer) broken(name string, err error) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		c.stop(err)
		return
	}
	c.write(tree.Entry{Path: "sys/" + name, Kind: tree.Broken, Errno: errno})
}

// class takes an RDMA class: its own files, and every device in it.
func (c *capturer) class(class string) {
	dir := "class/" + class
	c.keepDir(dir)
	for _, name := range c.list(dir) {
		c.member(dir+"/"+name, func(file string) bool {
			return class != "infiniband" || Keeps(file)
		})
	}
}

// Keeps leaves out what is long and says nothing about an HCA.
func Keeps(name string) bool {
	base := path.Base(name)
	return base != "power" && base != "diag_counters" && base != "serial" && // serial: of hfi1
		!strings.HasPrefix(base, "cm_rx_") && !strings.HasPrefix(base, "cm_tx_")
}

// member takes an entry of a class directory: a file, or the link to a device and that device.
func (c *capturer) member(name string, keep func(string) bool) {
	c.take(name)
	if e, taken := c.tree.Lookup("sys/" + name); taken && e.Kind == tree.Link {
		dir := path.Join(path.Dir(name), e.Target)
		c.all(dir, keep)
		c.devices(parentDevice(dir))
	}
}

// parentDevice is the device above a class directory: it hangs at <device>/<class>/<name>.
func parentDevice(dir string) string {
	return path.Dir(path.Dir(dir))
}

// target is the directory that a link of a class or bus directory leads to.
func (c *capturer) target(name string) (string, bool) {
	link, err := c.sys.ReadLink(name)
	if err != nil {
		c.stop(err)
		return "", false
	}
	return path.Join(path.Dir(name), link), true
}

// all takes a directory with all that is below it.
func (c *capturer) all(dir string, keep func(string) bool) {
	entries, err := fs.ReadDir(c.sys, dir)
	if err != nil {
		c.stop(err)
		return
	}
	c.keepDir(dir)
	inTable := c.gidSlots(dir)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case !keep(name) || e.Name() == "power" || !inTable(e.Name()):
		case e.IsDir():
			c.all(name, keep)
		default:
			c.take(name)
			c.noteNetdev(name)
		}
	}
}

// noteNetdev remembers a netdev that an HCA names.
func (c *capturer) noteNetdev(name string) {
	if !strings.Contains(name, "/gid_attrs/ndevs/") && path.Base(name) != "parent" {
		return
	}
	if e, ok := c.tree.Lookup("sys/" + name); ok && e.Kind == tree.File {
		c.ndevs[strings.TrimSpace(e.Data)] = true
	}
}
