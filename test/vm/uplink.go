package vm

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
)

// Uplink is a second network device of the guest, eth1. The guest and one program of the host use it to connect to each
// other, and to nobody else. A program that uses Uplink must call Init first.
type Uplink struct {
	// Address is that of eth1 with its prefix length, such as 10.96.0.15/24.
	Address string
	// Server is what the guest connects to, an address of the same network with a port;
	// Host is the address where that arrives.
	Server, Host string
	// Forwards are ports of the guest by address of the host. A connection to the address arrives at the port.
	Forwards map[string]int
}

// relayEnv has the address to which a relay connects.
const relayEnv = "DRA_RDMA_VM_RELAY"

// Init turns the program into a relay where QEMU started it as that, one for each connection
// of a guest, and then never returns. Otherwise it does nothing.
func Init() {
	address := os.Getenv(relayEnv)
	if address == "" {
		return
	}
	if err := relay(address, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vm relay:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// relay passes bytes on until the other side of either end has no more.
func relay(address string, in io.Reader, out io.Writer) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan error, 2)
	go func() { _, err := io.Copy(conn, in); ended <- err }()
	go func() { _, err := io.Copy(out, conn); ended <- err }()
	return <-ended
}

// args are those of QEMU.
func (u *Uplink) args() []string {
	if u == nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		self = "/proc/self/exe"
	}
	address, network, err := net.ParseCIDR(u.Address)
	if err != nil {
		return nil // Cmd.complete has refused it
	}
	netdev := fmt.Sprintf("user,id=uplink,restrict=on,net=%s,guestfwd=tcp:%s-cmd:%s", network, u.Server, self)
	for _, from := range slices.Sorted(maps.Keys(u.Forwards)) {
		netdev += fmt.Sprintf(",hostfwd=tcp:%s-%s:%d", from, address, u.Forwards[from])
	}
	return []string{
		"-netdev", netdev,
		"-device", "virtio-net-pci,netdev=uplink,romfile=,mac=52:54:00:12:34:57",
	}
}
