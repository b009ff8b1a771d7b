package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// pciFunction is a PCI function in sysfs.
type pciFunction struct {
	address, vendor, device, class string // in lower case, without 0x
	modalias                       string // what the kernel matches with the aliases of its modules
}

const pciDevices = "bus/pci/devices"

func (p *pciFunction) dir() string { return path.Join(pciDevices, p.address) }

// infiniBand reports whether the class of a function allows no other use than RDMA.
func (p *pciFunction) infiniBand() bool {
	return strings.HasPrefix(p.class, classInfiniBand) || strings.HasPrefix(p.class, classInfiniBandBus)
}

// pciFunctions lists the PCI functions of the host. A host without PCI has none.
func (r *reader) pciFunctions() []pciFunction {
	var functions []pciFunction
	for _, e := range r.sysList(pciDevices) {
		functions = append(functions, r.pciFunction(e.Name()))
	}
	return functions
}

// modaliasFormat is the kernel's form of the IDs of a function: vendor, device, those of the subsystem, class.
const modaliasFormat = "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X"

// pciFunction reads a function. Its modalias has all IDs. An incomplete sysfs, such as one of a report, may lack it.
func (r *reader) pciFunction(address string) pciFunction {
	p := pciFunction{address: address}
	p.modalias = r.sysRead(path.Join(p.dir(), "modalias"))
	var vendor, device, subVendor, subDevice, base, sub, programming uint64
	if _, err := fmt.Sscanf(p.modalias, modaliasFormat, &vendor, &device, &subVendor, &subDevice, &base, &sub,
		&programming); err != nil {
		id := func(name string) uint64 {
			n, _ := strconv.ParseUint(r.sysRead(path.Join(p.dir(), name)), 0, 32) // 0 if there is none
			return n
		}
		class := id("class")
		vendor, device, subVendor, subDevice = id("vendor"), id("device"), id("subsystem_vendor"), id("subsystem_device")
		base, sub, programming = class>>16&0xff, class>>8&0xff, class&0xff
		p.modalias = fmt.Sprintf(modaliasFormat, vendor, device, subVendor, subDevice, base, sub, programming)
	}
	p.vendor, p.device = fmt.Sprintf("%04x", vendor), fmt.Sprintf("%04x", device)
	p.class = fmt.Sprintf("%02x%02x%02x", base, sub, programming)
	return p
}

// PCI classes, as the first digits of the class file.
const (
	classNetwork       = "02"
	classInfiniBand    = "0207"
	classInfiniBandBus = "0c06" // cards before 2010
	classDisplay       = "03"
	classAccel         = "12"
)

// driverOf returns the module that is bound to a device below /sys, "" if none is.
func driverOf(sys fs.ReadLinkFS, dir string) string {
	for _, link := range []string{"driver/module", "driver"} {
		if target, err := sys.ReadLink(path.Join(dir, link)); err == nil {
			return strings.ReplaceAll(path.Base(target), "-", "_")
		}
	}
	return ""
}
