package rdmanetns

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var (
	// ErrAbsent is in the error if none of the examined namespaces has the device.
	ErrAbsent = errors.New("the RDMA device is not there")
	// ErrFixed is in the error for a device that the kernel cannot move.
	ErrFixed = errors.New("its kernel driver cannot move it to another network namespace (no disassociate_ucontext)")
)

// Devices returns the names of the RDMA devices that belong to a namespace, sorted.
func Devices(ns *Namespace) ([]string, error) {
	var names []string
	err := ns.do(func() error {
		links, err := list()
		for _, l := range links {
			names = append(names, l.Attrs.Name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the RDMA devices of network namespace %q: %w", ns, err)
	}
	slices.Sort(names)
	return names, nil
}

// Move moves a device, and reports whether it did. It is idempotent: a device that is already in the target namespace
// is not moved, and stays open in its processes. The error has ErrAbsent if neither namespace has the device, and
// ErrFixed if the kernel cannot move it.
func Move(ibdev string, from, to *Namespace) (moved bool, err error) {
	if !from.Same(to) {
		err = from.do(func() error { return send(ibdev, to) })
	}
	if err == nil && !from.Same(to) {
		return true, nil
	}
	// The device may have been there before, or another process may have moved it meanwhile.
	if err == nil || errors.Is(err, ErrAbsent) || errors.Is(err, unix.ENODEV) {
		err = to.do(func() error { _, err := find(ibdev); return err })
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = ErrFixed
	}
	if err != nil {
		err = fmt.Errorf("move RDMA device %q from network namespace %q to %q: %w", ibdev, from, to, err)
	}
	return false, err
}

// send moves a device of the thread's namespace to another one.
func send(ibdev string, to *Namespace) error {
	link, err := find(ibdev)
	if err != nil {
		return err
	}
	return netlink.RdmaLinkSetNsFd(link, uint32(to.file.Fd()))
}

// Movable returns nil if the kernel can move a device of a namespace, or an error with ErrFixed if it cannot. It moves
// nothing, because it sends the request from a thread in a namespace that does not own the device. The kernel first
// checks the driver (EOPNOTSUPP), and then the sender's namespace (ENODEV).
func Movable(ibdev string, ns *Namespace) error {
	err := ns.do(func() error {
		link, err := find(ibdev)
		if err != nil {
			return err
		}
		// The sockets of the handle stay in the namespace where they were made.
		h, err := netlink.NewHandle(unix.NETLINK_RDMA)
		if err != nil {
			return err
		}
		defer h.Close()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return h.RdmaLinkSetNsFd(link, uint32(ns.file.Fd()))
	})
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP):
		err = ErrFixed
	case err == nil:
		err = errors.New("the kernel accepted a request from a namespace that does not own the device")
	}
	return fmt.Errorf("ask whether RDMA device %q can be moved: %w", ibdev, err)
}

// find finds a device that belongs to the thread's namespace.
func find(ibdev string) (*netlink.RdmaLink, error) {
	links, err := list()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(links, func(l *netlink.RdmaLink) bool { return l.Attrs.Name == ibdev })
	if i < 0 {
		return nil, ErrAbsent
	}
	return links[i], nil
}

// dumps is how many times list tries to get a list that the kernel did not interrupt.
const dumps = 5

// list lists the devices of the thread's namespace. A device that appears or disappears meanwhile may be missing from
// an interrupted list.
func list() (links []*netlink.RdmaLink, err error) {
	for range dumps {
		if links, err = netlink.RdmaLinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return links, err
}

// Host moves devices of the network namespace of this process, which must be the host's.
type Host struct{ own *Namespace }

// NewHost opens the namespace of this process, and keeps it open.
func NewHost() (*Host, error) {
	own, err := Own()
	if err != nil {
		return nil, err
	}
	return &Host{own}, nil
}

// Movable returns an error with ErrFixed if the kernel cannot move a device of the host.
func (h *Host) Movable(ibdev string) error { return Movable(ibdev, h.own) }

// In moves a device of the host into the namespace of a path. It is idempotent.
func (h *Host) In(ibdev, netns string) (moved bool, err error) {
	to, err := Open(netns)
	if err != nil {
		return false, err
	}
	defer to.Close()
	return Move(ibdev, h.own, to)
}

// Out moves a device back to the host. It is idempotent. It returns no error if the namespace has ended or does not
// have the device, because the kernel moves the devices of an ended namespace back.
func (h *Host) Out(ibdev, netns string) (moved bool, err error) {
	from, err := Open(netns)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer from.Close()
	moved, err = Move(ibdev, from, h.own)
	if errors.Is(err, ErrAbsent) {
		err = nil
	}
	return moved, err
}
