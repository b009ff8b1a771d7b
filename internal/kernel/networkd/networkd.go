// Package networkd reads which switches announce themselves on the interfaces of a host, as systemd-networkd has heard
// them by LLDP (IEEE 802.1AB). It asks networkd's varlink socket (method io.systemd.Network.GetLLDPNeighbors of systemd
// 257 and later). Anybody may do that: no privilege and no socket for packets is needed.
//
// What a neighbor announces is of strangers: any device on the link can send it. All sizes are bounded, and the texts
// are as they were sent: the caller validates them.
package networkd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
)

// Dir is the directory of networkd below the root of a host, without a leading slash.
const Dir = "run/systemd/netif"

// Socket is the name of networkd's varlink socket in Dir.
const Socket = "io.systemd.Network"

// Neighbor is a device that announces itself on a link.
type Neighbor struct {
	// Chassis is the identity of the device: an address, or a text with its type. System is its name, "" if it sends
	// none. Port is the name of its port.
	Chassis, System, Port string
	// Switch says that it is a bridge or a router, and that this is enabled. It is false for a device that does not say.
	Switch bool
}

// maxNeighbors bounds the neighbors of an interface. networkd itself keeps no more
// (systemd, src/libsystemd-network/sd-lldp-rx.c).
const maxNeighbors = 128

// The enabled capabilities of a switch (IEEE 802.1AB, clause 8).
const capabilityBridge, capabilityRouter = 1 << 2, 1 << 4

// Read returns the neighbors on the interfaces of the host, by the index of the interface. dial connects to Socket.
// networkd removes an announcement whose time has passed.
func Read(ctx context.Context, dial func(context.Context) (net.Conn, error)) (map[int][]Neighbor, error) {
	heard, err := ask(ctx, dial)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoMethod) {
		err = fmt.Errorf("%w; systemd-networkd must run, and be of systemd 257 or newer: "+
			"otherwise let lldpd and the script rdma-links write the host's file of links", err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask systemd-networkd for its LLDP neighbors at /%s/%s: %w", Dir, Socket, err)
	}
	return heard, nil
}

// errNoMethod means that networkd is older than the method.
var errNoMethod = errors.New("it does not know the method GetLLDPNeighbors")

// maxReply bounds networkd's answer. An announcement has a few hundred bytes, and varlink lists each byte of an
// identity as a number: up to 3 KiB, of at most 128 neighbors of an interface, and the answer has all interfaces.
const maxReply = 16 << 20

// ask asks networkd by varlink: a JSON object that ends with a zero byte, and one that answers (varlink.org).
func ask(ctx context.Context, dial func(context.Context) (net.Conn, error)) (map[int][]Neighbor, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	_, err = io.WriteString(conn, `{"method":"io.systemd.Network.GetLLDPNeighbors","parameters":{}}`+"\x00")
	if err != nil {
		return nil, err
	}
	data, err := readReply(conn)
	if err != nil {
		return nil, err
	}
	return parseReply(data)
}

// readReply reads up to the zero byte.
func readReply(r io.Reader) ([]byte, error) {
	data, err := bufio.NewReader(io.LimitReader(r, maxReply)).ReadBytes(0)
	switch {
	case err == nil:
		return data[:len(data)-1], nil
	case len(data) == maxReply:
		return nil, fmt.Errorf("its answer has more than %d bytes", maxReply)
	}
	return nil, fmt.Errorf("its answer ends after %d bytes: %w", len(data), err)
}

// reply is the answer (systemd, src/shared/varlink-io.systemd.Network.c).
type reply struct {
	Error      string `json:"error"`
	Parameters struct {
		Neighbors []struct {
			InterfaceIndex int
			Neighbors      []struct {
				ChassisID, PortID, SystemName string
				EnabledCapabilities           int64
			}
		}
	} `json:"parameters"`
}

func parseReply(data []byte) (map[int][]Neighbor, error) {
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("its answer is not as expected: %w", err)
	}
	switch r.Error {
	case "":
	case "org.varlink.service.MethodNotFound", "org.varlink.service.InterfaceNotFound",
		"org.varlink.service.MethodNotImplemented":
		return nil, errNoMethod
	default:
		return nil, fmt.Errorf("its answer is the error %.100q", r.Error)
	}
	out := map[int][]Neighbor{}
	for _, of := range r.Parameters.Neighbors {
		heard := out[of.InterfaceIndex]
		for _, n := range of.Neighbors[:min(len(of.Neighbors), maxNeighbors-len(heard))] {
			heard = append(heard, Neighbor{
				Chassis: n.ChassisID, System: n.SystemName, Port: n.PortID,
				Switch: n.EnabledCapabilities&(capabilityBridge|capabilityRouter) != 0,
			})
		}
		out[of.InterfaceIndex] = heard
	}
	return out, nil
}
