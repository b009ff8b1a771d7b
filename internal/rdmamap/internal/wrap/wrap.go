// Package wrap makes github.com/Mellanox/rdmamap safe to call. It is the only importer of that library; package
// rdmamap is its face, and rdmamaptest that for tests.
package wrap

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	upstream "github.com/Mellanox/rdmamap"
)

// nodeDir is where results say that the nodes are, whatever the host root.
const nodeDir = "/dev/infiniband"

// mu serialises all calls of the library: its roots are package variables.
var mu sync.Mutex

// Map answers for the host below one root.
type Map struct {
	root string // absolute
}

// New returns a map of the host below root.
func New(root string) (*Map, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open rdmamap on host root %q: %w", root, err)
	}
	m := &Map{root: abs}
	if _, err := os.Stat(m.sys()); err != nil {
		return nil, fmt.Errorf("open rdmamap on host root %q: %w (is the host's /sys mounted there?)", root, err)
	}
	return m, nil
}

// Root returns the host root.
func (m *Map) Root() string { return m.root }

// Devices returns the names of all RDMA devices, sorted. None is no error.
func (m *Map) Devices() ([]string, error) {
	dir := m.sys("class", "infiniband")
	if err := listable(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no RDMA module is loaded
	} else if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	devices, err := m.call(upstream.GetRdmaDeviceList)
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices in %q: %w", dir, err)
	}
	return devices, nil
}

// DevicesForPCI returns the RDMA devices of a PCI function, such as "0000:3b:00.0", sorted. A function without any
// gives none; one that does not exist gives fs.ErrNotExist.
func (m *Map) DevicesForPCI(bdf string) ([]string, error) {
	return m.devicesFor("PCI function", "pci", bdf, upstream.GetRdmaDevicesForPcidev)
}

// DevicesForAux returns the RDMA devices of a device on the auxiliary bus, such as "mlx5_core.sf.4", sorted. A device
// without any gives none; one that does not exist gives fs.ErrNotExist.
func (m *Map) DevicesForAux(name string) ([]string, error) {
	return m.devicesFor("auxiliary device", "auxiliary", name, upstream.GetRdmaDevicesForAuxdev)
}

func (m *Map) devicesFor(what, bus, name string, lookup func(string) []string) ([]string, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("find RDMA devices of %s %q: %w", what, name, err)
	}
	dir := m.sys("bus", bus, "devices", name)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("find RDMA devices of %s %q: %w", what, name, err)
	}
	if err := listable(filepath.Join(dir, upstream.RdmaClassName)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("find RDMA devices of %s %q: %w", what, name, err)
	}
	devices, err := m.call(func() []string { return lookup(name) })
	if err != nil {
		return nil, fmt.Errorf("find RDMA devices of %s %q: %w", what, name, err)
	}
	return devices, nil
}

// CharDevices returns the paths of the character devices of an RDMA device, as the host knows them
// ("/dev/infiniband/uverbs0"), sorted: uverbs, and always also umad, issm and the global rdma_cm where they exist. Only
// rdma_cm is looked for in /dev; of the others nothing says that the node is there. A device that does not exist gives
// fs.ErrNotExist.
func (m *Map) CharDevices(ibdev string) ([]string, error) {
	if err := checkName(ibdev); err != nil {
		return nil, fmt.Errorf("find character devices of RDMA device %q: %w", ibdev, err)
	}
	if _, err := os.Lstat(m.sys("class", "infiniband", ibdev)); err != nil {
		return nil, fmt.Errorf("find character devices of RDMA device %q: %w", ibdev, err)
	}
	for _, class := range []string{"infiniband_verbs", "infiniband_mad", "infiniband_cm"} {
		if err := listable(m.sys("class", class)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find character devices of RDMA device %q: %w", ibdev, err)
		}
	}
	nodes, err := m.call(func() []string { return upstream.GetRdmaCharDevices(ibdev) })
	if err != nil {
		return nil, fmt.Errorf("find character devices of RDMA device %q: %w", ibdev, err)
	}
	for i, node := range nodes {
		nodes[i] = filepath.Join(nodeDir, filepath.Base(node))
	}
	return nodes, nil
}

// call runs one call of the library on this map's root, alone, and survives its panics. The library returns names in
// the order of the directory, and rdma_cm once per class; the result is sorted and free of duplicates.
func (m *Map) call(f func() []string) (out []string, err error) {
	mu.Lock()
	defer mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("rdmamap panicked: %v (a sysfs file that it expects to have content is empty)", p)
		}
	}()
	m.setRoots()
	out = slices.Clone(f())
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (m *Map) setRoots() {
	upstream.RdmaClassDir = m.sys("class", "infiniband")
	upstream.RdmaIbUcmDir = m.sys("class", "infiniband_cm")
	upstream.RdmaUmadDir = m.sys("class", "infiniband_mad")
	upstream.RdmaUverbsDir = m.sys("class", "infiniband_verbs")
	upstream.PciDevDir = m.sys("bus", "pci", "devices")
	upstream.AuxDevDir = m.sys("bus", "auxiliary", "devices")
	upstream.RdmaDeviceDir = filepath.Join(m.root, nodeDir)
	upstream.RdmaUcmDevice = filepath.Join(m.root, nodeDir, "rdma_cm")
}

func (m *Map) sys(elem ...string) string {
	return filepath.Join(append([]string{m.root, "sys"}, elem...)...)
}

// checkName refuses what would lead the library out of the directory it looks in.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return errors.New("not the name of a device")
	}
	return nil
}

// listable tells why a directory cannot be listed: the library takes every error for an empty directory.
func listable(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
