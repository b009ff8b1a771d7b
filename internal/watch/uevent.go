package watch

import (
	"bytes"
	"path"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Uevent is what the kernel says of one device.
type Uevent struct {
	Action    string // add, remove, change, move, bind, unbind
	DevPath   string // below /sys
	OldPath   string // of a move: where it was
	Subsystem string // the device's class or bus
	PCIClass  string // of a PCI function, hexadecimal: 20000
}

// ParseUevent parses a datagram of the kernel: "add@/devices/...", then KEY=value
// strings, each ended by a zero byte. It reports whether it is one; messages of
// udevd, which start with "libudev", are not.
func ParseUevent(message []byte) (Uevent, bool) {
	header, rest, ok := bytes.Cut(message, []byte{0})
	action, devPath, isKernel := strings.Cut(string(header), "@")
	if !ok || !isKernel || action == "" || !strings.HasPrefix(devPath, "/") {
		return Uevent{}, false
	}
	u := Uevent{Action: action, DevPath: devPath}
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		key, value, _ := bytes.Cut(field, []byte("="))
		switch string(key) {
		case "SUBSYSTEM":
			u.Subsystem = string(value)
		case "DEVPATH_OLD":
			u.OldPath = string(value)
		case "PCI_CLASS":
			u.PCIClass = string(value)
		}
	}
	return u, true
}

func (u Uevent) isRDMACM() bool {
	return u.Subsystem == "misc" && path.Base(u.DevPath) == "rdma_cm"
}

// changes names what to look at after the event, nothing if it is of no interest.
func (u Uevent) changes(of *Interest) rdma.Changes {
	name := path.Base(u.DevPath)
	old := ""
	if u.OldPath != "" {
		old = path.Base(u.OldPath)
	}
	switch u.Subsystem {
	case "infiniband":
		return rdma.Changes{IBDevs: rdma.NamesOf(name, old)}
	case "infiniband_verbs", "infiniband_mad":
		return rdma.Changes{Nodes: rdma.NamesOf(name, old)}
	case "net":
		if of.Netdevs.Has(name) || of.Netdevs.Has(old) || onHardware(u.DevPath) {
			return rdma.Changes{Netdevs: rdma.NamesOf(name, old)}
		}
	case "pci":
		if of.Functions.Has(name) || isNetworkClass(u.PCIClass) {
			return rdma.Changes{Functions: rdma.NamesOf(name)}
		}
	case "auxiliary":
		// A subfunction, or the half of a driver that makes the HCA.
		place := rdma.PlaceOf(strings.TrimPrefix(u.DevPath, "/"))
		if of.Functions.Has(place.Address) {
			return rdma.Changes{Functions: rdma.NamesOf(place.Address)}
		}
	}
	return rdma.Changes{Host: u.isRDMACM()}
}

// onHardware reports whether a network interface is not a virtual one: an HCA may be
// on the device below it.
func onHardware(devPath string) bool {
	return !strings.HasPrefix(devPath, "/devices/virtual/")
}

// isNetworkClass reports whether a PCI class is one of those that functions with HCAs
// have: network controllers, InfiniBand and fabric controllers among them, and the
// InfiniBand controllers of before (include/linux/pci_ids.h).
func isNetworkClass(class string) bool {
	return len(class) == 5 && class[0] == '2' || len(class) == 5 && strings.HasPrefix(class, "C06") || len(class) == 5 &&
		strings.HasPrefix(class, "c06")
}
