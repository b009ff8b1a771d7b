package topology

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const busPCI = "bus/pci/devices"

// pciBus reads the PCI functions that are accelerators.
type pciBus struct {
	sys      fs.ReadLinkFS
	problems []rdma.Problem
}

// member is a device with its function, and the family of functions that one device represents.
type member struct {
	*Device
	family   string
	function rdma.Function
}

// accelerators returns all functions of the package comment's PCI classes, including VFs, by
// address. The family is the address of the PF.
func (p *pciBus) accelerators() []member {
	entries, err := fs.ReadDir(p.sys, busPCI)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.problem(fmt.Errorf("list %s: %w", busPCI, err))
	}
	var out []member
	for _, e := range entries {
		if m, ok := p.accelerator(path.Join(busPCI, e.Name())); ok {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b member) int { return rdma.ComparePCIAddresses(a.Address, b.Address) })
	return out
}

func (p *pciBus) accelerator(dir string) (member, bool) {
	vendor := hexID(p.read(dir, "vendor"))
	kind := classify(p.read(dir, "class"), vendor)
	if kind == "" {
		return member{}, false
	}
	target, err := p.sys.ReadLink(dir)
	if err != nil {
		p.problem(fmt.Errorf("read device link: %w", err))
		return member{}, false
	}
	place := rdma.PlaceOf(target)
	if place.Address == "" {
		p.problem(fmt.Errorf("read device link %s: no PCI function in %q", dir, target))
		return member{}, false
	}
	d := &Device{
		Kind: kind, Address: place.Address, Root: place.Root, Bridges: place.Bridges,
		Vendor: vendor, ID: hexID(p.read(dir, "device")),
		NUMANode: parseNUMANode(p.read(dir, "numa_node")),
	}
	if pf, err := p.sys.ReadLink(path.Join(dir, "physfn")); err == nil {
		return member{d, path.Base(pf), rdma.VF}, true
	}
	return member{d, d.Address, rdma.PF}, true
}

// read returns the content of a file without its newline, "" for a missing file.
func (p *pciBus) read(dir, name string) string {
	b, err := fs.ReadFile(p.sys, path.Join(dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.problem(fmt.Errorf("read attribute: %w", err))
	}
	return strings.TrimSpace(string(b))
}

func (p *pciBus) problem(err error) {
	p.problems = append(p.problems, rdma.Problem{Message: err.Error()})
}

func hexID(s string) string { return strings.TrimPrefix(s, "0x") }

// parseNUMANode parses the file numa_node. It returns nil for -1, the kernel's "unknown".
func parseNUMANode(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// classify returns the kind of a function by its PCI class, 0x030200. It returns "" for a function
// that is no accelerator. AMD's Instinct GPUs have class 12 as well as 03.
func classify(class, vendor string) Kind {
	class = hexID(class)
	if len(class) != 6 {
		return ""
	}
	switch {
	case class[:4] == "0300" && onlyDisplays[vendor]:
		return ""
	case class[:2] == "03", class[:2] == "12" && vendor == "1002":
		return GPU
	case class[:2] == "12":
		return Accelerator
	}
	return ""
}

// fold removes VFs and SFs, and counts them at their PF. If the PF is absent, as in a virtual
// machine, the first of them counts the others.
func fold(members []member) []*Device {
	first := map[string]*Device{}
	for _, m := range members {
		if m.function == rdma.PF {
			first[m.family] = cmp.Or(first[m.family], m.Device)
		}
	}
	var out []*Device
	for _, m := range members {
		shown := first[m.family]
		switch {
		case shown == nil:
			first[m.family] = m.Device
			out = append(out, m.Device)
		case shown != m.Device && m.function == rdma.VF:
			shown.VFs++
		case shown != m.Device && m.function == rdma.SF:
			shown.SFs++
		default:
			out = append(out, m.Device)
		}
	}
	return out
}

// number names accelerators by kind and index.
func number(devices []*Device) []*Device {
	prefix := map[Kind]string{GPU: "GPU", Accelerator: "ACC"}
	count := map[Kind]int{}
	for _, d := range devices {
		d.Name = prefix[d.Kind] + strconv.Itoa(count[d.Kind])
		count[d.Kind]++
	}
	return devices
}

// hcas converts a snapshot to devices.
func hcas(snap *rdma.Snapshot) []*Device {
	var members []member
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		members = append(members, member{hca(h), h.Family(), h.Function})
	}
	return fold(members)
}

func hca(h *rdma.HCA) *Device {
	d := &Device{Name: h.IBDev, Kind: HCA, Function: h.Function, Port: &Port{Protocol: h.Protocol}}
	if p := h.PCI; p != nil {
		where := h.DataFunction()
		d.Address, d.Root, d.Bridges, d.NUMANode = p.Address, where.Root, where.Bridges, where.NUMANode
		d.Vendor, d.ID = p.Vendor, p.Device
	}
	if h.DataDirect != nil {
		d.DataDirect = h.DataDirect.Address
	}
	if h.Purpose == rdma.PurposeSwitchManager {
		d.Note = "manages NVSwitches"
	}
	if p := h.Port1(); p != nil {
		d.Port.State, d.Port.Netdev = p.State, p.Netdev
		if p.State == rdma.PortActive { // otherwise the rate is not valid
			d.Port.RateMbps = p.RateMbps
		}
	}
	if d.Port.Netdev == "" {
		d.Port.Netdev = h.Identity.Netdev
	}
	return d
}
