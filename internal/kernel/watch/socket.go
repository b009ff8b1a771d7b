package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// The multicast groups to join. udevd sends to another group of uevents, in a format of its own.
const (
	groupKernelUevents = 1
	groupRDMANotify    = 4 // RDMA_NL_GROUP_NOTIFY, include/uapi/rdma/rdma_netlink.h
)

// receiveBuffer is the buffer size that each socket requests. The kernel grants at most net.core.rmem_max. A thousand
// VFs that appear at once cause several thousand events.
const receiveBuffer = 4 << 20

// OpenUevents opens a socket that receives the kernel's uevents, one for each Read.
// It needs no privilege. Closing it ends a Read in progress.
func OpenUevents() (io.ReadCloser, error) {
	return openNetlink("uevent", unix.NETLINK_KOBJECT_UEVENT, groupKernelUevents)
}

// openLinks opens a socket that receives changes of links and addresses. It also requests all present links, so that
// later messages can be compared with them.
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

// openRDMA opens a socket that receives RDMA notifications. It loads the module ib_core if necessary. While the socket
// is open, the module cannot be unloaded.
func openRDMA() (io.ReadCloser, error) {
	return openNetlink("RDMA netlink", unix.NETLINK_RDMA, groupRDMANotify)
}

func openNetlink(what string, protocol int, groups ...uint) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open %s socket: %w", what, err)
	}
	// Ignore an error: a smaller buffer overflows sooner, and an overflow is a signal like any other.
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

// rdmaSource is the socket of RDMA notifications. It is open only while there are HCAs. It is closed as soon as one
// disappears, until the next snapshot contains others. An open socket holds the module ib_core, so unloading the host's
// RDMA stack would fail. Opening the socket loads the module even on a host without RDMA.
type rdmaSource struct {
	close  atomic.Pointer[context.CancelFunc] // closes the socket that is open, or about to be
	wanted loop.Signal                        // set when the socket is to be opened
}

// want opens or closes the socket. It is safe for concurrent use.
func (s *rdmaSource) want(open bool) {
	if !open {
		s.release()
		return
	}
	s.wanted.Set()
}

// release closes the socket, and cancels a pending request to open it.
func (s *rdmaSource) release() {
	select {
	case <-s.wanted:
	default:
	}
	if end := s.close.Load(); end != nil {
		(*end)()
	}
}

// receiveRDMA passes on RDMA notifications while there are HCAs, until ctx ends. While the socket is closed it loses no
// information, because the uevents of HCAs report the same changes. It reports no error if the kernel is older than the
// notifications, or refuses them to this process.
func (w *Watcher) receiveRDMA(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.rdma.wanted:
		}
		untilRelease, end := context.WithCancel(ctx)
		w.rdma.close.Store(&end)
		source, err := w.RDMA()
		if err == nil {
			err = w.read(untilRelease, source, rdmaChanges)
		}
		end()
		isAbsent := errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)
		if ctx.Err() == nil && !isAbsent && !errors.Is(err, os.ErrClosed) {
			w.Report(err)
		}
	}
}
