package watch

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The multicast groups that are listened to. udevd sends to another group of uevents,
// in a format of its own.
const (
	groupKernelUevents = 1
	groupRDMANotify    = 4 // RDMA_NL_GROUP_NOTIFY, include/uapi/rdma/rdma_netlink.h
)

// receiveBuffer is asked for on each socket; the kernel grants as much as
// net.core.rmem_max. A thousand VFs that come at once make some thousand events.
const receiveBuffer = 4 << 20

// OpenUevents opens a socket that receives the kernel's uevents, one for each Read.
// It needs no privilege. Closing it ends a Read in progress.
func OpenUevents() (io.ReadCloser, error) {
	return openNetlink("uevent", unix.NETLINK_KOBJECT_UEVENT, groupKernelUevents)
}

// openLinks opens a socket that receives changes of links and addresses, and makes it
// tell all links first, so that later messages can be compared with them.
func openLinks() (io.ReadCloser, error) {
	s, err := openNetlink("rtnetlink", unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, err
	}
	if _, err := s.Write(dumpLinks()); err != nil {
		s.Close()
		return nil, fmt.Errorf("ask rtnetlink for all links: %w", err)
	}
	return s, nil
}

// openRDMA opens a socket that receives RDMA notifications. It loads the module
// ib_core where that is not loaded, and keeps it from being unloaded while it is open.
func openRDMA() (io.ReadCloser, error) {
	return openNetlink("RDMA netlink", unix.NETLINK_RDMA, groupRDMANotify)
}

func openNetlink(what string, protocol int, groups ...uint) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open %s socket: %w", what, err)
	}
	// A smaller buffer overflows sooner, which is a signal like any other.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	address := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, g := range groups {
		address.Groups |= 1 << (g - 1)
	}
	if err := unix.Bind(fd, address); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind %s socket: %w", what, err)
	}
	return os.NewFile(uintptr(fd), what), nil
}
