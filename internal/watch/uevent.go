package watch

import (
	"bytes"
	"path"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Uevent is a message of the kernel about one device.
type Uevent struct {
	Action    string // add, remove, change, move, bind, unbind
	DevPath   string // below /sys
	OldPath   string // of a move: the previous DevPath
	Subsystem string // the device's class or bus
	PCIClass  string // of a PCI function, in hexadecimal: 20000
}

// ParseUevent parses a datagram of the kernel: "add@/devices/...", then KEY=value strings, each terminated by a zero
// byte. It returns false for other datagrams, such as messages of udevd, which start with "libudev".
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

// changes names the devices to read after the event; nothing if the event is irrelevant.
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
		// A subfunction, or the auxiliary device of a driver that makes the HCA.
		place := rdma.PlaceOf(strings.TrimPrefix(u.DevPath, "/"))
		if of.Functions.Has(place.Address) {
			return rdma.Changes{Functions: rdma.NamesOf(place.Address)}
		}
	}
	return rdma.Changes{Host: u.Subsystem == "misc" && name == "rdma_cm"}
}

// onHardware reports whether a network interface is not a virtual one. The device below such an interface may have an
// HCA.
func onHardware(devPath string) bool {
	return !strings.HasPrefix(devPath, "/devices/virtual/")
}

// isNetworkClass reports whether a PCI class is a class of functions with HCAs: network controllers, which include
// InfiniBand and fabric controllers, or the older class of InfiniBand controllers (include/linux/pci_ids.h).
func isNetworkClass(class string) bool {
	return len(class) == 5 && (class[0] == '2' || strings.EqualFold(class[:3], "c06"))
}
