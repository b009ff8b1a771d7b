package rdma

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// PCIFunction is what sysfs says of a PCI function and its place in the tree.
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
// the function, or "" where it sits below a root port without a switch. Two
// functions with one Switch reach each other without passing a root complex.
func (f *PCIFunction) Switch() string {
	// Root port, upstream port, downstream port, function.
	if len(f.Bridges) < 3 {
		return ""
	}
	return f.Bridges[len(f.Bridges)-2]
}

// pciAddress is a parsed PCI address; it orders numerically.
type pciAddress struct{ domain, bus, device, function uint32 }

// ParsePCIAddress checks a PCI address and returns it in canonical lower case.
func ParsePCIAddress(s string) (string, error) {
	a, err := parsePCIAddress(s)
	if err != nil {
		return "", err
	}
	return a.String(), nil
}

func parsePCIAddress(s string) (pciAddress, error) {
	groups := strings.Split(s, ":")
	if len(groups) != 3 {
		return pciAddress{}, notPCIAddress(s)
	}
	dev, fn, ok := strings.Cut(groups[2], ".")
	if !ok || len(groups[0]) < 4 || len(groups[1]) != 2 || len(dev) != 2 || len(fn) != 1 {
		return pciAddress{}, notPCIAddress(s)
	}
	var a pciAddress
	for _, f := range []struct {
		digits string
		bits   int
		into   *uint32
	}{{groups[0], 32, &a.domain}, {groups[1], 8, &a.bus}, {dev, 5, &a.device}, {fn, 3, &a.function}} {
		v, err := strconv.ParseUint(f.digits, 16, f.bits)
		if err != nil {
			return pciAddress{}, notPCIAddress(s)
		}
		*f.into = uint32(v)
	}
	return a, nil
}

// notPCIAddress is an error that is made for every part of a path, so its text waits
// until someone reads it.
type notPCIAddress string

func (e notPCIAddress) Error() string {
	return fmt.Sprintf("parse PCI address %q: want domain:bus:device.function, e.g. 0000:3b:00.0", string(e))
}

// String returns the kernel's form ("%04x:%02x:%02x.%d", drivers/pci/probe.c).
func (a pciAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.domain, a.bus, a.device, a.function)
}

func (a pciAddress) compare(b pciAddress) int {
	return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.bus, b.bus),
		cmp.Compare(a.device, b.device), cmp.Compare(a.function, b.function))
}

// place is where a device directory stands in /sys/devices.
type place struct {
	dir     string   // the directory of the PCI function, relative to /sys
	address string   // the PCI function, "" if there is none on the path
	root    string   // pciDDDD:BB
	bridges []string // from the root port down, without the function
	aux     string   // auxiliary device below the function, "" if none
}

// slot returns the PCI slot of a place: the address without the function.
func (p place) slot() string {
	slot, _, _ := strings.Cut(p.address, ".")
	return slot
}

// locate reads a device's place from its path below /sys/devices. It looks for
// the pciDDDD:BB component itself: it is the first one on most machines, but
// stands below LNXSYSTM:00/.../VMBUS:00 on Hyper-V and below platform on Arm.
func locate(devicePath string) place {
	var p place
	parts := strings.Split(devicePath, "/")
	for i, part := range parts {
		if isPCIRoot(part) {
			// A second root bus is that of a bridge into a domain of its own (Intel
			// VMD); the first one is what other drivers call the root.
			p = place{root: cmp.Or(p.root, part)}
			continue
		}
		if p.root == "" {
			continue
		}
		if _, err := parsePCIAddress(part); err != nil {
			if p.address != "" {
				p.aux = part
			}
			return p
		}
		if p.address != "" {
			p.bridges = append(p.bridges, p.address)
		}
		p.address = part
		p.dir = path.Join(parts[:i+1]...)
	}
	return p
}

// parsePCIID parses the content of vendor and device, "0x15b3".
func parsePCIID(s string) (string, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(s), "0x")
	if _, err := strconv.ParseUint(digits, 16, 16); err != nil || !ok || len(digits) != 4 {
		return "", fmt.Errorf("parse PCI ID %q: want 0x and four hexadecimal digits", s)
	}
	return digits, nil
}

// isPCIRoot reports whether a path component is a PCI root bus: pci0000:15.
func isPCIRoot(s string) bool {
	domain, bus, ok := strings.Cut(strings.TrimPrefix(s, "pci"), ":")
	if !ok || !strings.HasPrefix(s, "pci") || len(domain) < 4 || len(bus) != 2 {
		return false
	}
	_, err1 := strconv.ParseUint(domain, 16, 32)
	_, err2 := strconv.ParseUint(bus, 16, 8)
	return err1 == nil && err2 == nil
}
