package watch

import (
	"bytes"
	"strings"
)

// Uevent is what the kernel says of one device.
type Uevent struct {
	Action    string // add, remove, change, move, bind, unbind
	DevPath   string // below /sys
	Subsystem string // the device's class or bus
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
		if value, ok := bytes.CutPrefix(field, []byte("SUBSYSTEM=")); ok {
			u.Subsystem = string(value)
		}
	}
	return u, true
}

// subsystems are those whose events change what RDMA devices a host has. A PCI or
// auxiliary device is followed by the events of the HCA on it.
var subsystems = map[string]bool{
	"infiniband":       true,
	"infiniband_verbs": true,
	"infiniband_mad":   true,
}

// Relevant reports whether the host should be looked at after the event.
func (u Uevent) Relevant() bool {
	return subsystems[u.Subsystem] || (u.Subsystem == "misc" && strings.HasSuffix(u.DevPath, "/rdma_cm"))
}
