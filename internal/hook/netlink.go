package hook

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Why an answer of the kernel is not used.
var (
	errInterrupted = errors.New("the kernel's list changed while it was read")
	errMessage     = errors.New("the kernel's answer has an unknown format")
)

// checkEnd returns why a list that ends with m is incomplete, nil if it is complete. If the kernel stopped early, the
// last message has an error. Older kernels send none.
func checkEnd(m syscall.NetlinkMessage, interrupted bool) error {
	switch {
	case m.Header.Type == unix.NLMSG_DONE && len(m.Data) < 4:
	case m.Header.Type == unix.NLMSG_OVERRUN || len(m.Data) < 4:
		return errMessage
	default:
		if errno := unix.Errno(-*(*int32)(unsafe.Pointer(&m.Data[0]))); errno != 0 {
			return errno
		}
		if m.Header.Type == unix.NLMSG_ERROR { // an acknowledgement that was not requested
			return errMessage
		}
	}
	if interrupted {
		return errInterrupted
	}
	return nil
}

// retry reads a list again if it changed while it was read.
func retry(list func() ([]string, error)) (names []string, err error) {
	const tries = 5
	for range tries {
		if names, err = list(); !errors.Is(err, errInterrupted) {
			break
		}
	}
	return names, err
}

// receive reads datagrams of the kernel from a netlink socket. It must ignore other senders: a process with
// CAP_NET_ADMIN in a network namespace can send to every netlink socket there.
func receive(fd int) func([]byte) (int, error) {
	return func(b []byte) (int, error) {
		for {
			n, from, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				return 0, err
			}
			if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 {
				return n, nil
			}
		}
	}
}
