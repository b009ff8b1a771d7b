package doctor

import (
	"io/fs"
	"path"
	"strings"
)

// pciFunction is a PCI function in sysfs.
type pciFunction struct {
	address, vendor, device, class string // without 0x
}

// pciFunctions lists the PCI functions of the host. A host without PCI has none.
func (r *reader) pciFunctions() []pciFunction {
	const dir = "bus/pci/devices"
	entries, err := fs.ReadDir(r.Sys, dir)
	if err != nil {
		return nil
	}
	functions := make([]pciFunction, 0, len(entries))
	for _, e := range entries {
		read := func(name string) string { return strings.TrimPrefix(r.sysRead(path.Join(dir, e.Name(), name)), "0x") }
		functions = append(functions, pciFunction{e.Name(), read("vendor"), read("device"), read("class")})
	}
	return functions
}

// rdmaCard is a family of PCI functions that can do RDMA.
type rdmaCard struct {
	vendor, devices, module string // devices is a prefix, "" for all
	dedicated               bool   // has no other use than RDMA
}

// rdmaCards identifies families by their PCI IDs. A card of the class InfiniBand is dedicated even if its entry says
// otherwise.
var rdmaCards = []rdmaCard{
	{"15b3", "100", "mlx4_ib", false}, // ConnectX-3
	{"15b3", "101", "mlx5_ib", false}, // ConnectX-4 to 6
	{"15b3", "102", "mlx5_ib", false}, // ConnectX-7 and later
	{"15b3", "a2d", "mlx5_ib", false}, // BlueField
	{"1d0f", "efa", "efa", true},
	{"1ded", "107f", "erdma", true},
	{"1414", "00ba", "mana_ib", false},
	{"8086", "24f", "hfi1", true},     // Omni-Path
	{"8086", "159", "irdma", false},   // E810
	{"8086", "37d", "irdma", false},   // X722
	{"14e4", "175", "bnxt_re", false}, // BCM575xx
	{"14e4", "176", "bnxt_re", false}, // BCM576xx
	{"1dd8", "100", "ionic_rdma", false},
}

// PCI classes, as the first digits of the class file.
const (
	classNetwork    = "02"
	classInfiniBand = "0207"
	classDisplay    = "03"
	classAccel      = "12"
)

// card returns the family of a function, nil if it is unknown.
func (p pciFunction) card() *rdmaCard {
	if !strings.HasPrefix(p.class, classNetwork) {
		return nil
	}
	for i := range rdmaCards {
		if c := &rdmaCards[i]; c.vendor == p.vendor && strings.HasPrefix(p.device, c.devices) {
			return c
		}
	}
	return nil
}
