package rdma

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// PCIFunction describes a PCI function and its place in the PCIe tree. readPCI fills that of an HCA, and board.go that
// of the function for Data Direct.
type PCIFunction struct {
	// Address is domain:bus:device.function, lower case, e.g. 0000:3b:00.0. The
	// domain has more than four digits behind Intel VMD and on Azure.
	Address string `json:"address"`
	Vendor  string `json:"vendor,omitempty"` // vendor, e.g. 15b3
	Device  string `json:"device,omitempty"` // device, e.g. 1021
	// NUMANode is numa_node, nil where the kernel says -1.
	NUMANode *int `json:"numaNode,omitempty"`
	// Root is the PCIe root complex, e.g. pci0000:15.
	Root string `json:"root,omitempty"`
	// Bridges is the chain of bridges from the root port down to the function.
	Bridges []string `json:"bridges,omitempty"`
	// TotalVFs is sriov_totalvfs, nil on a function without SR-IOV.
	TotalVFs *int `json:"totalVFs,omitempty"`
	// NumVFs is sriov_numvfs, nil on a function without SR-IOV.
	NumVFs *int `json:"numVFs,omitempty"`
}

// Switch returns the address of the upstream port of the PCIe switch nearest to
// the function. It returns "" for a function below a root port without a switch. Two
// functions with one Switch communicate without passing a root complex.
func (f *PCIFunction) Switch() string {
	// Root port, upstream port, downstream port, function.
	if len(f.Bridges) < 3 {
		return ""
	}
	return f.Bridges[len(f.Bridges)-2]
}

// pciAddress is a parsed PCI address: the bits of its domain, bus, device and function, which order numerically.
type pciAddress uint64

// parsePCIAddress parses domain:bus:device.function. It reports whether the text is an address.
func parsePCIAddress(s string) (a pciAddress, ok bool) {
	groups := strings.Split(s, ":")
	if len(groups) != 3 {
		return 0, false
	}
	dev, fn, ok := strings.Cut(groups[2], ".")
	if !ok || len(groups[0]) < 4 || len(groups[1]) != 2 || len(dev) != 2 || len(fn) != 1 {
		return 0, false
	}
	for _, f := range []struct {
		digits string
		bits   int
	}{{groups[0], 32}, {groups[1], 8}, {dev, 5}, {fn, 3}} {
		v, err := strconv.ParseUint(f.digits, 16, f.bits)
		if err != nil {
			return 0, false
		}
		a = a<<f.bits | pciAddress(v)
	}
	return a, true
}

// Place is the position of a device directory below /sys/devices.
type Place struct {
	// Address is the PCI address of the function, "" if the path has none.
	Address string
	// Root is the PCIe root complex, e.g. pci0000:15.
	Root string
	// Bridges are the addresses of the bridges from the root port down to the function.
	Bridges []string

	dir string // the directory of the PCI function, relative to /sys
	aux string // the auxiliary device below the function, "" if none
}

// slot returns the PCI slot: the address without the function.
func (p Place) slot() string {
	slot, _, _ := strings.Cut(p.Address, ".")
	return slot
}

// PlaceOf parses the place of a device from its path below /sys/devices, the target of a link in
// /sys/bus/pci/devices. It searches for the pciDDDD:BB component: most machines have it first, but
// on Hyper-V it is below LNXSYSTM:00/.../VMBUS:00 and on Arm below platform.
func PlaceOf(devicePath string) Place {
	var p Place
	parts := strings.Split(devicePath, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "pci") && pciRoot.MatchString(part) {
			// A second root bus belongs to a bridge into a domain of its own (Intel
			// VMD). Other drivers call the first one the root.
			p = Place{Root: cmp.Or(p.Root, part)}
			continue
		}
		if p.Root == "" {
			continue
		}
		if _, ok := parsePCIAddress(part); !ok {
			if p.Address != "" {
				p.aux = part
			}
			return p
		}
		if p.Address != "" {
			p.Bridges = append(p.Bridges, p.Address)
		}
		p.Address = part
		p.dir = path.Join(parts[:i+1]...)
	}
	return p
}

// ComparePCIAddresses orders PCI addresses by their numbers, where an order by
// text would put domain 10000 before domain 2000. A text that is no PCI address
// comes first.
func ComparePCIAddresses(a, b string) int {
	x, _ := parsePCIAddress(a)
	y, _ := parsePCIAddress(b)
	return cmp.Compare(x, y)
}

// parsePCIID parses the content of vendor and device, "0x15b3".
func parsePCIID(s string) (string, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(s), "0x")
	if _, err := strconv.ParseUint(digits, 16, 16); err != nil || !ok || len(digits) != 4 {
		return "", fmt.Errorf("parse PCI ID %q: want 0x and four hexadecimal digits", s)
	}
	return digits, nil
}

// pciRoot matches a path component that is a PCI root bus: pci0000:15.
var pciRoot = regexp.MustCompile(`^pci[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}$`)

// PCIeLink is the state of a PCIe link. It is comparable.
type PCIeLink struct {
	MTs   int // the rate of a lane in units of 10^6 transfers a second: 32000
	Lanes int
}

// maxLanes is the widest link of the standard.
const maxLanes = 32

// Capacity is the product of rate and lanes, for comparisons. It ignores the encoding, which differs before PCIe 3.
func (l PCIeLink) Capacity() int { return l.MTs * l.Lanes }

// Mbps is what a link carries, in units of 10^6 bit/s, without its encoding (drivers/pci/pci.h, PCIE_SPEED2MBS_ENC).
func (l PCIeLink) Mbps() int {
	switch {
	case l.MTs <= 5000:
		return l.Capacity() * 8 / 10
	case l.MTs < 64000:
		return l.Capacity() * 128 / 130
	}
	return l.Capacity()
}

// String formats a link as 32x16: GT/s and lanes.
func (l PCIeLink) String() string {
	return strconv.FormatFloat(float64(l.MTs)/1000, 'f', -1, 64) + "x" + strconv.Itoa(l.Lanes)
}

// ReadPCIeLink reads the link above a device: the "current" one, or the "max" that the device can have. It returns
// false if there is none: a link that is down has no rate, and 0 or 63 lanes, and a VF has no link of its own.
func ReadPCIeLink(sys fs.FS, dir, which string) (PCIeLink, bool) {
	rate, unit, _ := strings.Cut(attribute(sys, path.Join(dir, which+"_link_speed")), " ")
	if !strings.HasPrefix(unit, "GT/s") {
		return PCIeLink{}, false
	}
	l, err := ParsePCIeLink(rate + "x" + attribute(sys, path.Join(dir, which+"_link_width")))
	return l, err == nil
}

// ParsePCIeLink parses the form of String.
func ParsePCIeLink(s string) (PCIeLink, error) {
	rate, lanes, _ := strings.Cut(s, "x")
	gts, err := strconv.ParseFloat(rate, 64)
	n, errLanes := strconv.Atoi(lanes)
	if err != nil || errLanes != nil || !(gts >= 1 && gts < 1000) || n < 1 || n > maxLanes {
		return PCIeLink{}, fmt.Errorf("want GT/s and lanes, as 32x16, not %q", s)
	}
	return PCIeLink{int(gts * 1000), n}, nil
}

// vfTable holds the index of each VF, by PF and VF address. It reads the links of a PF when they are first
// needed.
type vfTable map[string]map[string]*int

// index returns K of the PF's link virtfnK to the VF, nil if there is none.
func (t vfTable) index(sys fs.ReadLinkFS, pf, vf string) *int {
	vfs, ok := t[pf]
	if !ok {
		vfs = readVFLinks(sys, pf)
		t[pf] = vfs
	}
	return vfs[vf]
}

func readVFLinks(sys fs.ReadLinkFS, pf string) map[string]*int {
	r := &reader{sys: sys}
	vfs := map[string]*int{}
	dir, err := r.realpath("bus/pci/devices/" + pf)
	if err != nil {
		return vfs
	}
	for _, name := range r.list(dir) {
		if num, ok := strings.CutPrefix(name, "virtfn"); ok {
			if k, err := strconv.Atoi(num); err == nil {
				vfs[r.link(path.Join(dir, name))] = &k
			}
		}
	}
	return vfs
}
