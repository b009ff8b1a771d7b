package topology

import (
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

// function is an accelerator with the address of its PF. A PF has its own address there.
type function struct {
	*Device
	pf string
}

// accelerators returns all functions of the package comment's PCI classes, including VFs, by
// address.
func (p *pciBus) accelerators() []function {
	entries, err := fs.ReadDir(p.sys, busPCI)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.problem(fmt.Errorf("list %s: %w", busPCI, err))
	}
	var out []function
	for _, e := range entries {
		if f, ok := p.accelerator(path.Join(busPCI, e.Name())); ok {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b function) int { return rdma.ComparePCIAddresses(a.Address, b.Address) })
	return out
}

func (p *pciBus) accelerator(dir string) (function, bool) {
	vendor := hexID(p.read(dir, "vendor"))
	kind := classify(p.read(dir, "class"), vendor)
	if kind == "" {
		return function{}, false
	}
	target, err := p.sys.ReadLink(dir)
	if err != nil {
		p.problem(fmt.Errorf("read device link: %w", err))
		return function{}, false
	}
	place := rdma.PlaceOf(target)
	if place.Address == "" {
		p.problem(fmt.Errorf("read device link %s: no PCI function in %q", dir, target))
		return function{}, false
	}
	d := &Device{
		Kind: kind, Address: place.Address, Root: place.Root, Bridges: place.Bridges,
		Vendor: vendor, ID: hexID(p.read(dir, "device")),
		NUMANode: parseNUMANode(p.read(dir, "numa_node")),
	}
	f := function{d, d.Address}
	if pf, err := p.sys.ReadLink(path.Join(dir, "physfn")); err == nil {
		f.pf = path.Base(pf)
	}
	return f, true
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

// foldVFs removes VFs from a list and counts them at their PFs. If the PF is absent, as in a
// virtual machine, its first VF counts the others.
func foldVFs(functions []function) []*Device {
	byPF := map[string]*Device{}
	for _, f := range functions {
		if f.pf == f.Address {
			byPF[f.pf] = f.Device
		}
	}
	var out []*Device
	for _, f := range functions {
		if first, ok := byPF[f.pf]; ok && first != f.Device {
			first.VFs++
			continue
		}
		byPF[f.pf] = f.Device
		out = append(out, f.Device)
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

// hcas converts a snapshot to devices. It counts VFs and SFs at their PF. A snapshot is sorted so
// that the HCA of a PF comes before them.
func hcas(snap *rdma.Snapshot) []*Device {
	byFamily := map[string]*Device{}
	var out []*Device
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		first := byFamily[h.Family()]
		switch {
		case first != nil && h.Function == rdma.VF:
			first.VFs++
		case first != nil && h.Function == rdma.SF:
			first.SFs++
		default:
			d := hca(h)
			if first == nil {
				byFamily[h.Family()] = d
			}
			out = append(out, d)
		}
	}
	return out
}

func hca(h *rdma.HCA) *Device {
	d := &Device{Name: h.IBDev, Kind: HCA, Function: h.Function, Port: &Port{Protocol: h.Protocol}}
	if p := h.PCI; p != nil {
		d.Address, d.Root, d.Bridges, d.NUMANode = p.Address, p.Root, p.Bridges, p.NUMANode
		d.Vendor, d.ID = p.Vendor, p.Device
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
