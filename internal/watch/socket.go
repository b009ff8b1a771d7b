package watch

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group of the kernel's own uevents; udevd sends to
// another one.
const kernelGroup = 1

// OpenUevents opens a socket that receives the kernel's uevents, one for each Read.
// It needs no privilege. Closing it ends a Read in progress.
func OpenUevents() (io.ReadCloser, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open uevent socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind uevent socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}
