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
	"slices"
	"strconv"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// Dir is the directory of networkd below the root of a host, without a leading slash.
const Dir = "run/systemd/netif"

// Socket is the name of networkd's varlink socket in Dir.
const Socket = "io.systemd.Network"

// Heard are the neighbors on an interface.
type Heard struct {
	Neighbors []Neighbor
	// Err is why they are not known.
	Err error
}

// Read returns the neighbors on the interfaces with these indexes, by index. An interface without a neighbor is absent.
// The file system is Dir. dial connects to Socket; it may be nil. If networkd does not answer there, Read reads the
// files. It returns an error if it can tell nothing of any interface.
//
// networkd removes an announcement whose time has passed. The age of a file says nothing: what is repeated is not
// written again (systemd, src/network/networkd-lldp-rx.c, conservative_rename). When networkd stops, its files stay.
func Read(
	ctx context.Context, dir fs.ReadLinkFS, dial func(context.Context) (net.Conn, error), indexes []int,
) (map[int]Heard, error) {
	if dial != nil {
		heard, err := ask(ctx, dial, indexes)
		switch {
		case err == nil:
			return heard, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoMethod):
			return nil, fmt.Errorf("ask systemd-networkd for its LLDP neighbors: %w", err)
		}
	}
	if _, err := hostfs.Stat(dir, "links"); err != nil { // networkd has a file there for each interface that it manages
		return nil, fmt.Errorf("systemd-networkd does not run, or /%s is not mounted: %w", Dir, err)
	}
	out := map[int]Heard{}
	for _, index := range indexes {
		one, err := readFile(dir, "lldp/"+strconv.Itoa(index))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // of this interface alone
			one.Err = fmt.Errorf("read the LLDP neighbors of systemd-networkd: /%s/lldp/%d: %w", Dir, index, err)
		}
		out[index] = one
	}
	return out, nil
}

func readFile(dir fs.ReadLinkFS, name string) (Heard, error) {
	data, err := hostfs.ReadFile(dir, name, maxFile)
	if err != nil {
		return Heard{}, err
	}
	neighbors, err := ParseFile(data)
	return Heard{Neighbors: neighbors}, err
}

// errNoMethod means that networkd is older than the method.
var errNoMethod = errors.New("it does not know the method GetLLDPNeighbors")

// maxReply bounds networkd's answer. An announcement has a few hundred bytes, and varlink lists each byte of an
// identity as a number: up to 3 KiB, of at most 128 neighbors of an interface, and the answer has all interfaces.
const maxReply = 16 << 20

// ask asks networkd by varlink: a JSON object that ends with a zero byte, and one that answers (varlink.org).
func ask(
	ctx context.Context, dial func(context.Context) (net.Conn, error), indexes []int,
) (map[int]Heard, error) {
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
	return parseReply(data, indexes)
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

func parseReply(data []byte, indexes []int) (map[int]Heard, error) {
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
	out := map[int]Heard{}
	for _, of := range r.Parameters.Neighbors {
		if !slices.Contains(indexes, of.InterfaceIndex) {
			continue
		}
		heard := out[of.InterfaceIndex]
		if len(heard.Neighbors)+len(of.Neighbors) > maxNeighbors {
			out[of.InterfaceIndex] = Heard{Err: fmt.Errorf("systemd-networkd has more than %d neighbors there", maxNeighbors)}
			continue
		}
		for _, n := range of.Neighbors {
			heard.Neighbors = append(heard.Neighbors, Neighbor{
				Chassis: n.ChassisID, System: n.SystemName, Port: n.PortID, Switch: isSwitch(n.EnabledCapabilities),
			})
		}
		out[of.InterfaceIndex] = heard
	}
	return out, nil
}
