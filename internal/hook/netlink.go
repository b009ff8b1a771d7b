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
	errMessage     = errors.New("the answer is not understood")
)

// ending returns why a list that ends with a message is not whole, nil if it is. The end of
// a list carries an error where the kernel broke it off; older kernels say nothing there.
func ending(m syscall.NetlinkMessage, interrupted bool) error {
	switch {
	case m.Header.Type == unix.NLMSG_DONE && len(m.Data) < 4:
	case m.Header.Type == unix.NLMSG_OVERRUN || len(m.Data) < 4:
		return errMessage
	default:
		if errno := unix.Errno(-*(*int32)(unsafe.Pointer(&m.Data[0]))); errno != 0 {
			return errno
		}
		if m.Header.Type == unix.NLMSG_ERROR { // an acknowledgement, and nobody has asked for one
			return errMessage
		}
	}
	if interrupted {
		return errInterrupted
	}
	return nil
}

// retry asks for a list again that changed while it was read.
func retry(list func() ([]string, error)) (names []string, err error) {
	const tries = 5
	for range tries {
		if names, err = list(); !errors.Is(err, errInterrupted) {
			break
		}
	}
	return names, err
}

// receive reads datagrams of the kernel from a netlink socket. Others are passed over: in
// a network namespace where it has CAP_NET_ADMIN, a process can send to any such socket.
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
