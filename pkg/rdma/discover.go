package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The directories of sysfs that are read, relative to /sys.
const (
	classInfiniband = "class/infiniband"
	classVerbs      = "class/infiniband_verbs"
	classMAD        = "class/infiniband_mad"
	classNet        = "class/net"
	fileRDMACMDev   = "class/misc/rdma_cm/dev"
	fileNetnsMode   = "module/ib_core/parameters/netns_mode"
)

// Discover reads the RDMA devices of a host from sys, whose root is the host's
// /sys: os.DirFS("/sys"), or a fixture. It reads each class directory once and
// a fixed number of files for each HCA, so its cost is linear in their number.
//
// What cannot be read is in Snapshot.Problems, and the rest is still there. An
// error is returned only when sys is no sysfs tree at all. A host without RDMA
// is no error: its snapshot has no HCAs.
func Discover(sys fs.ReadLinkFS) (*Snapshot, error) {
	if _, err := fs.Stat(sys, "class"); err != nil {
		return nil, fmt.Errorf("read sysfs: %w (is this the root of a sysfs tree?)", err)
	}
	d := &discovery{sys: sys, snap: &Snapshot{HCAs: []HCA{}}}
	d.readNetnsMode()
	d.readRDMACM()
	uverbs := d.readVerbs()
	mads := d.readMADs()
	d.netdevs = d.readNetdevs()
	for _, ibdev := range d.list(classInfiniband) {
		h, err := d.readHCA(ibdev, uverbs[ibdev], mads[ibdev])
		if err != nil {
			d.problem(ibdev, err)
			continue
		}
		d.snap.HCAs = append(d.snap.HCAs, h)
	}
	d.linkVFs()
	d.identify()
	slices.SortFunc(d.snap.HCAs, func(a, b HCA) int { return compareHCAs(&a, &b) })
	return d.snap, nil
}

// discovery is one pass over a sysfs tree.
type discovery struct {
	sys     fs.ReadLinkFS
	snap    *Snapshot
	netdevs netdevs
}

// problem records what could not be read of ibdev.
func (d *discovery) problem(ibdev string, err error) {
	d.snap.Problems = append(d.snap.Problems, Problem{IBDev: ibdev, Err: err, Message: err.Error()})
}

// list returns the names in a directory, sorted, none if it does not exist.
func (d *discovery) list(dir string) []string {
	entries, err := fs.ReadDir(d.sys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.problem("", fmt.Errorf("list %s: %w", dir, err))
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// read returns the content of a file without its newline. A file that does not
// exist is absent, which is no problem: drivers leave out what they do not know.
func (d *discovery) read(ibdev, name string) string {
	b, err := fs.ReadFile(d.sys, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.problem(ibdev, fmt.Errorf("read attribute: %w", err))
		}
		return ""
	}
	return strings.TrimSpace(string(b))
}

// optional is read for files whose read fails by design, such as the attributes
// of an empty GID slot (EINVAL) or sriov files of an unbound function.
func (d *discovery) optional(name string) string {
	b, err := fs.ReadFile(d.sys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// parsed reads a file and parses its content; it returns the zero value when the
// file is absent or empty, and records what it cannot parse.
func parsed[T any](d *discovery, ibdev, name string, parse func(string) (T, error)) T {
	var zero T
	s := d.read(ibdev, name)
	if s == "" {
		return zero
	}
	v, err := parse(s)
	if err != nil {
		d.problem(ibdev, fmt.Errorf("read %s: %w", name, err))
		return zero
	}
	return v
}

// word parses "4: ACTIVE" to ACTIVE.
func word(s string) (string, error) {
	_, w, err := ParseEnum(s)
	return w, err
}

// number parses a count that the kernel prints in decimal; -1 and an absent file
// are nil (numa_node).
func number(s string) (*int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, fmt.Errorf("parse number %q: %w", s, err)
	}
	if n < 0 {
		return nil, nil
	}
	return &n, nil
}

func (d *discovery) readNetnsMode() {
	d.snap.NetnsMode = parsed(d, "", fileNetnsMode, parseNetnsMode)
}

func (d *discovery) readRDMACM() {
	if dev := d.read("", fileRDMACMDev); dev != "" {
		d.snap.RDMACM = d.node(Node{Kind: NodeRDMACM, Name: "rdma_cm"}, "", dev)
	}
}

// node completes a node with its device number; nil if that cannot be read.
func (d *discovery) node(n Node, ibdev, dev string) *Node {
	if dev == "" {
		d.problem(ibdev, fmt.Errorf("read device number of %s: the dev file is empty or gone", n.Name))
		return nil
	}
	var err error
	if n.Major, n.Minor, err = ParseDev(dev); err != nil {
		d.problem(ibdev, fmt.Errorf("read device number of %s: %w", n.Name, err))
		return nil
	}
	return &n
}

// readVerbs indexes the uverbs nodes by ibdev.
func (d *discovery) readVerbs() map[string]*Node {
	index := map[string]*Node{}
	for _, name := range d.list(classVerbs) {
		if !strings.HasPrefix(name, "uverbs") {
			continue // the class attribute abi_version
		}
		dir := path.Join(classVerbs, name)
		ibdev := d.read("", path.Join(dir, "ibdev"))
		if ibdev == "" {
			continue // gone since it was listed
		}
		if n := d.node(Node{Kind: NodeUverbs, Name: name}, ibdev, d.read(ibdev, path.Join(dir, "dev"))); n != nil {
			index[ibdev] = n
		}
	}
	return index
}

// readMADs indexes the umad and issm nodes by ibdev.
func (d *discovery) readMADs() map[string][]Node {
	index := map[string][]Node{}
	for _, name := range d.list(classMAD) {
		kind := NodeUMAD
		switch {
		case strings.HasPrefix(name, "umad"):
		case strings.HasPrefix(name, "issm"):
			kind = NodeISSM
		default:
			continue // abi_version
		}
		dir := path.Join(classMAD, name)
		ibdev := d.read("", path.Join(dir, "ibdev"))
		if ibdev == "" {
			continue
		}
		port := parsed(d, ibdev, path.Join(dir, "port"), number)
		if n := d.node(Node{Kind: kind, Name: name}, ibdev, d.read(ibdev, path.Join(dir, "dev"))); n != nil && port != nil {
			n.Port = *port
			index[ibdev] = append(index[ibdev], *n)
		}
	}
	for _, nodes := range index {
		slices.SortFunc(nodes, compareMADs)
	}
	return index
}

// compareMADs orders by port, umad before issm.
func compareMADs(a, b Node) int {
	if a.Port != b.Port {
		return a.Port - b.Port
	}
	return strings.Compare(string(b.Kind), string(a.Kind))
}

// realpath resolves a class entry to the device directory it links to. A tree in
// which class entries are directories of their own resolves to themselves.
func (d *discovery) realpath(entry string) (string, error) {
	target, err := d.sys.ReadLink(entry)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrInvalid) {
		return entry, nil
	}
	if err != nil {
		return "", err
	}
	if path.IsAbs(target) {
		return strings.TrimPrefix(path.Clean(target), "/sys/"), nil
	}
	return path.Join(path.Dir(entry), target), nil
}
