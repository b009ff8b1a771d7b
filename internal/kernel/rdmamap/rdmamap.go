// Package rdmamap is a second opinion on the RDMA devices of a host. It wraps github.com/Mellanox/rdmamap, which other
// device plugins and CNI plugins use, and offers only the lookups in which that library is right.
//
// Use it for single lookups, in Prepare, and to check the project's own index (package rdma) in tests and in doctor. Do
// not use it to scan a host: it reads every class directory again for every device.
//
// What the wrapper adds to the library (v1.2.0):
//
//   - The library keeps its roots in package variables. The wrapper serialises all calls and sets the roots for each.
//   - The library returns nil for an unreadable directory, for a device that does not exist and for a device without
//     RDMA. The wrapper returns an error, an error with fs.ErrNotExist, and an empty result.
//   - The library returns results in the order of the directory. The wrapper sorts them and removes duplicates.
//   - The library panics on files that are unexpectedly empty. The wrapper returns an error.
//   - Paths of nodes are those of the host, whatever the host root.
//
// What it does not change: the character devices of an RDMA device always include umad, issm and the global rdma_cm. A
// node whose ibdev file cannot be read is missing without an error. Class directories must contain links, as in sysfs.
// The library's lookups by netdev need netlink, compare names without network namespaces and miss IPoIB, so the wrapper
// does not offer them.
package rdmamap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	upstream "github.com/Mellanox/rdmamap"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// nodeDir is the directory of the nodes in results, whatever the host root.
const nodeDir = "/dev/infiniband"

// mu serialises all calls of the library, because its roots are package variables.
var mu sync.Mutex

// Map looks up devices of the host below one root. Several goroutines may use it.
type Map struct {
	root string // absolute
}

// Open returns the map of the host whose /sys and /dev are below root ("/" on the host itself).
func Open(root string) (*Map, error) {
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

// Devices returns the names of all RDMA devices, sorted. A host without devices is no error.
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

// DevicesForPCI returns the RDMA devices of a PCI function, such as "0000:3b:00.0", sorted. The
// result is empty for a function without RDMA. The error for an unknown function is fs.ErrNotExist.
func (m *Map) DevicesForPCI(bdf string) ([]string, error) {
	return m.devicesFor("PCI function", "pci", bdf, upstream.GetRdmaDevicesForPcidev)
}

// DevicesForAux returns the RDMA devices of a device on the auxiliary bus, such as "mlx5_core.sf.4", sorted. The
// result is empty for a device without RDMA. The error for an unknown device is fs.ErrNotExist.
func (m *Map) DevicesForAux(name string) ([]string, error) {
	return m.devicesFor("auxiliary device", "auxiliary", name, upstream.GetRdmaDevicesForAuxdev)
}

func (m *Map) devicesFor(what, bus, name string, lookup func(string) []string) ([]string, error) {
	dir := m.sys("bus", bus, "devices", name)
	err := checkName(name)
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err == nil {
		if err = listable(filepath.Join(dir, upstream.RdmaClassName)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	var devices []string
	if err == nil {
		devices, err = m.call(func() []string { return lookup(name) })
	}
	if err != nil {
		return nil, fmt.Errorf("find RDMA devices of %s %q: %w", what, name, err)
	}
	return devices, nil
}

// CharDevices returns the paths of the character devices of an RDMA device, as the host knows them
// ("/dev/infiniband/uverbs0"), sorted: uverbs, and always umad, issm and the global rdma_cm if they exist. The library
// checks only rdma_cm in /dev: the other nodes may be missing there. The error for an unknown device is fs.ErrNotExist.
func (m *Map) CharDevices(ibdev string) ([]string, error) {
	err := checkName(ibdev)
	if err == nil {
		_, err = os.Lstat(m.sys("class", "infiniband", ibdev))
	}
	for _, class := range []string{"infiniband_verbs", "infiniband_mad", "infiniband_cm"} {
		if e := listable(m.sys("class", class)); err == nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	var nodes []string
	if err == nil {
		nodes, err = m.call(func() []string { return upstream.GetRdmaCharDevices(ibdev) })
	}
	if err != nil {
		return nil, fmt.Errorf("find character devices of RDMA device %q: %w", ibdev, err)
	}
	for i, node := range nodes {
		nodes[i] = filepath.Join(nodeDir, filepath.Base(node))
	}
	return nodes, nil
}

// call makes one call of the library with this map's root. It holds the lock, and turns a panic into an error. It sorts
// the result and removes duplicates, because the library returns rdma_cm once per class.
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

// checkName rejects names that would lead the library out of its directory.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return errors.New("not the name of a device")
	}
	return nil
}

// listable returns why a directory cannot be listed. The library treats every error as an empty directory.
func listable(dir string) error {
	_, err := os.ReadDir(dir)
	return err
}

// Confirmer asks a Map which HCA is on a PCI function. The library shares no code with this project, so a bug in the
// project's reading of sysfs gives no claim a wrong card. A question costs as much as everything else that Prepare
// reads, and a bug would repeat its answer. So each set of names of an HCA is confirmed only once. rdma.Verify checks
// at each call that the names are still valid. It is safe for concurrent use.
type Confirmer struct {
	Ask func(function string) (ibdevs []string, err error) // [Map.DevicesForPCI]

	confirmed sync.Map // the names by HCA
}

// names are the values that rdma.Verify compares with sysfs.
type names struct {
	pci, ibdev string
	guid       rdma.GUID
	uverbs     rdma.Node
}

func namesOf(h *rdma.HCA) names {
	n := names{pci: h.Identity.PCI, ibdev: h.IBDev, guid: h.NodeGUID}
	if h.Uverbs != nil {
		n.uverbs = *h.Uverbs
	}
	return n
}

// Confirm returns an error if rdmamap does not find an HCA on its function.
func (c *Confirmer) Confirm(h *rdma.HCA) error {
	if h.Identity.PCI == "" || h.Identity.SF != nil {
		return nil // the library has no answer
	}
	now := namesOf(h)
	if known, _ := c.confirmed.Load(h.Name); known == now {
		return nil
	}
	ibdevs, err := c.Ask(h.Identity.PCI)
	if err != nil {
		return err
	}
	if !slices.Contains(ibdevs, h.IBDev) {
		return fmt.Errorf("%w: function %s has %v, not %s", rdma.ErrChanged, h.Identity.PCI, ibdevs, h.IBDev)
	}
	c.confirmed.Store(h.Name, now)
	return nil
}
