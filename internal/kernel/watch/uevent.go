package watch

import (
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
	header, rest, ok := strings.Cut(string(message), "\x00")
	action, devPath, isKernel := strings.Cut(header, "@")
	if !ok || !isKernel || action == "" || !strings.HasPrefix(devPath, "/") {
		return Uevent{}, false
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, "\x00") {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	return Uevent{
		Action: action, DevPath: devPath, OldPath: fields["DEVPATH_OLD"],
		Subsystem: fields["SUBSYSTEM"], PCIClass: fields["PCI_CLASS"],
	}, true
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
	case "hfi1_user": // which HCA it belongs to depends on the other cards
		return rdma.Changes{All: true}
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
