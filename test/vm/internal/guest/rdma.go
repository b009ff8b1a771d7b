package guest

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

// driver is a kind of software RDMA device.
type driver struct {
	link    string // its type for the kernel
	modules []string
}

// drivers are the kinds by the letters of a device's name. rdma_rxe needs the crc32 hash
// too, which its own list of dependencies does not have. rxm is a changed rxe that can be
// moved; they exclude each other.
var drivers = map[string]driver{
	"rxe": {"rxe", []string{"crc32_generic", "rdma_rxe"}},
	"rxm": {"rxe", []string{"crc32_generic", "rdma_rxm"}},
	"siw": {"siw", []string{"siw"}},
}

// rdma makes the RDMA devices, each on an addressed network device.
func (b *boot) rdma() error {
	if err := b.modules.load("virtio_net"); err != nil {
		return err
	}
	if err := setUp("lo"); err != nil {
		return err
	}
	if b.spec.Uplink != "" {
		if err := uplink(b.spec.Uplink); err != nil {
			return fmt.Errorf("set the uplink up: %w", err)
		}
	}
	if len(b.spec.Devices) > 0 {
		if err := b.modules.load("ib_uverbs", "ib_umad", "rdma_ucm"); err != nil {
			return err
		}
	}
	for i, d := range b.spec.Devices {
		if err := b.addDevice(i+1, d); err != nil {
			return fmt.Errorf("make RDMA device %q on %q: %w", d.Name, d.Netdev, err)
		}
	}
	return nil
}

func (b *boot) addDevice(n int, d job.Device) error {
	kind := strings.TrimRight(d.Name, "0123456789")
	driver, ok := drivers[kind]
	if !ok {
		return fmt.Errorf("unknown kind %q", kind)
	}
	if err := b.modules.load(driver.modules...); err != nil {
		return err
	}
	link, err := b.netdev(d.Netdev)
	if err != nil {
		return err
	}
	if err := address(link, n, b.spec.Number); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the link up: %w", err)
	}
	return netlink.RdmaLinkAdd(d.Name, driver.link, d.Netdev)
}

// netdev finds a network device, or makes a dummy or a veth pair.
func (b *boot) netdev(name string) (netlink.Link, error) {
	kind := strings.TrimRight(name, "0123456789")
	if kind == "dummy" || kind == "veth" {
		// The module dummy makes dummy0 by itself.
		if err := b.modules.load(kind); err != nil {
			return nil, err
		}
	}
	link, err := netlink.LinkByName(name)
	if err == nil || !errors.As(err, &netlink.LinkNotFoundError{}) {
		return link, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	switch kind {
	case "dummy":
		link = &netlink.Dummy{LinkAttrs: attrs}
	case "veth":
		link = &netlink.Veth{LinkAttrs: attrs, PeerName: name + "p"}
	default:
		return nil, errors.New("no such network device, and only dummyN and vethN can be made")
	}
	if err := netlink.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("make the link: %w", err)
	}
	if kind == "veth" {
		return link, setUp(name + "p")
	}
	return link, nil
}

// address gives the n-th device 10.77.n.1/24 and fd77:n::1/64, or another last number.
func address(link netlink.Link, n, last int) error {
	four := &net.IPNet{IP: net.IPv4(10, 77, byte(n), byte(last)), Mask: net.CIDRMask(24, 32)}
	six := &net.IPNet{IP: net.ParseIP(fmt.Sprintf("fd77:%x::%x", n, last)), Mask: net.CIDRMask(64, 128)}
	for _, a := range []*netlink.Addr{{IPNet: four}, {IPNet: six, Flags: unix.IFA_F_NODAD}} {
		if err := netlink.AddrAdd(link, a); err != nil {
			return fmt.Errorf("add address %s: %w", a, err)
		}
	}
	return nil
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %q: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set link %q up: %w", name, err)
	}
	return nil
}

// uplink gives the second network device its address.
func uplink(cidr string) error {
	link, err := netlink.LinkByName("eth1")
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(link, addr), netlink.LinkSetUp(link))
}
