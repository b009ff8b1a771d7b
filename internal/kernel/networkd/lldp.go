package networkd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
)

// Neighbor is a device that announces itself on a link.
type Neighbor struct {
	// Chassis is the identity of the device: an address, or a text with its type. System is its name, "" if it sends
	// none. Port is the name of its port.
	Chassis, System, Port string
	// Switch says that it is a bridge or a router, and that this is enabled. It is false for a device that does not say.
	Switch bool
}

// The bounds of a file of networkd, which itself keeps at most 128 neighbors of an interface
// (systemd, src/libsystemd-network/sd-lldp-rx.c).
const (
	maxNeighbors = 128
	maxFrame     = 16 << 10
	maxFile      = maxNeighbors * (maxFrame + lengthSize)
	lengthSize   = 8
)

// ParseFile parses what networkd keeps of an interface: frames, each after its length in 8 bytes, least significant
// first. It leaves out a frame that is no announcement. A file that ends within a frame is an error.
func ParseFile(data []byte) ([]Neighbor, error) {
	var out []Neighbor
	for n := 0; len(data) > 0; n++ {
		if n == maxNeighbors {
			return nil, fmt.Errorf("there are more than %d neighbors", maxNeighbors)
		}
		if len(data) < lengthSize {
			return nil, errors.New("the file ends within a length")
		}
		length := binary.LittleEndian.Uint64(data)
		data = data[lengthSize:]
		if length > maxFrame || length > uint64(len(data)) {
			return nil, fmt.Errorf("a frame has %d bytes, and the file has %d more", length, len(data))
		}
		if neighbor, err := parseFrame(data[:length]); err == nil {
			out = append(out, neighbor)
		}
		data = data[length:]
	}
	return out, nil
}

// The types and subtypes of an announcement's elements (IEEE 802.1AB, clause 8).
const (
	etherLLDP = 0x88cc

	tlvEnd, tlvChassis, tlvPort, tlvTTL, tlvSystem, tlvCapabilities = 0, 1, 2, 3, 5, 7

	chassisMAC, portMAC = 4, 3

	capabilityBridge, capabilityRouter = 1 << 2, 1 << 4
)

var errShort = errors.New("the announcement ends within an element")

// parseFrame parses an Ethernet frame with an announcement. Its first three elements must be chassis, port and TTL.
func parseFrame(frame []byte) (Neighbor, error) {
	const header = 14
	if len(frame) < header || binary.BigEndian.Uint16(frame[12:]) != etherLLDP {
		return Neighbor{}, errors.New("it is no LLDP frame")
	}
	var n Neighbor
	rest := frame[header:]
	for i := 0; ; i++ {
		if len(rest) < 2 {
			return Neighbor{}, errShort
		}
		head := binary.BigEndian.Uint16(rest)
		kind, length := int(head>>9), int(head&0x1ff)
		rest = rest[2:]
		if length > len(rest) {
			return Neighbor{}, errShort
		}
		value := rest[:length]
		rest = rest[length:]
		if mandatory := [...]int{tlvChassis, tlvPort, tlvTTL}; i < len(mandatory) && kind != mandatory[i] {
			return Neighbor{}, fmt.Errorf("element %d has type %d, want %d", i, kind, mandatory[i])
		}
		if kind == tlvEnd {
			return n, nil
		}
		if err := n.take(kind, value); err != nil {
			return Neighbor{}, err
		}
	}
}

// take takes one element.
func (n *Neighbor) take(kind int, value []byte) error {
	switch kind {
	case tlvChassis:
		if len(value) < 2 {
			return errShort
		}
		n.Chassis = identity(value, chassisMAC)
	case tlvPort:
		if len(value) < 2 {
			return errShort
		}
		n.Port = identity(value, portMAC)
	case tlvTTL:
		if len(value) < 2 {
			return errShort
		}
	case tlvSystem:
		n.System = string(value)
	case tlvCapabilities:
		if len(value) < 4 {
			return errShort
		}
		n.Switch = isSwitch(int64(binary.BigEndian.Uint16(value[2:])))
	}
	return nil
}

// isSwitch reads the enabled capabilities.
func isSwitch(enabled int64) bool { return enabled&(capabilityBridge|capabilityRouter) != 0 }

// identity returns an identity as networkctl prints it: an address for the subtype mac, and a text otherwise.
func identity(value []byte, mac byte) string {
	if value[0] == mac && len(value) == 7 {
		return net.HardwareAddr(value[1:]).String()
	}
	return string(value[1:])
}
