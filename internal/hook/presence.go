package hook

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Presence is an RDMA device that has to be in the container's network namespace, with
// its verbs node.
type Presence struct {
	Device string // mlx5_0
	Uverbs string // uverbs0
}

// ParsePresence reads IBDEV:UVERBS.
func ParsePresence(s string) (Presence, error) {
	device, uverbs, ok := strings.Cut(s, ":")
	if !ok || device == "" || !strings.HasPrefix(uverbs, "uverbs") || strings.ContainsAny(s, "/ \t\n") {
		return Presence{}, errors.New(strconv.Quote(s) + " is not IBDEV:UVERBS, such as mlx5_0:uverbs0")
	}
	return Presence{device, uverbs}, nil
}

// ErrAway is in the error of a device that is not where the container needs it.
var ErrAway = errors.New("the container may be started once it is")

// Devices is what the check of presences needs of the host.
type Devices interface {
	// Here lists the RDMA devices of the network namespace of a process.
	Here(pid int, deadline time.Time) ([]string, error)
	// OwnerOf is the RDMA device that a verbs node is of.
	OwnerOf(uverbs string) (string, error)
	// Alias is the alias of an interface of the network namespace of a process.
	Alias(pid int, name string, deadline time.Time) (alias string, found bool, err error)
	// CheckNodes returns an error that names nodes that are of other RDMA devices.
	CheckNodes(want []NodeOwner) (warning string, err error)
}

// CheckPresences returns an error that names each device that is not in the network
// namespace of the process, or has another verbs node than the container was given.
func CheckPresences(d Devices, pid int, want []Presence, deadline time.Time) error {
	here, err := d.Here(pid, deadline)
	if err != nil {
		return wrap("look for RDMA devices in the container's network namespace", err)
	}
	var errs []error
	for _, p := range want {
		found := false
		for _, name := range here {
			found = found || name == p.Device
		}
		if !found {
			errs = append(errs, wrap("RDMA device "+p.Device+" of the claim is not in the pod's network namespace: the RDMA driver of this node has not moved it there yet, see its log", ErrAway))
			continue
		}
		if owner, err := d.OwnerOf(p.Uverbs); err != nil || owner != p.Device {
			errs = append(errs, wrap("node "+p.Uverbs+" is not that of RDMA device "+p.Device+" any more, which was moved since the container's devices were chosen", ErrAway))
		}
	}
	return errors.Join(errs...)
}

// HostDevices are the devices of this host.
type HostDevices struct {
	Sys string // where CheckNodes has sysfs, "" for /sys
}

// OwnerOf reads sysfs, whose class of verbs nodes is the same in all namespaces.
func (HostDevices) OwnerOf(uverbs string) (string, error) {
	b, err := os.ReadFile("/sys/class/infiniband_verbs/" + uverbs + "/ibdev")
	return strings.TrimSpace(string(b)), err
}

// Here asks the kernel over a socket of that namespace.
func (HostDevices) Here(pid int, deadline time.Time) (names []string, err error) {
	err = inNamespaceOf(pid, func() error {
		names, err = devicesHere(deadline)
		return err
	})
	return names, err
}

// inNamespaceOf runs f in the network namespace of a process. The thread that does stays in
// the namespace, and is used for nothing else.
func inNamespaceOf(pid int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- enter(pid, f)
	}()
	return <-done
}

func enter(pid int, f func() error) error {
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net")
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return wrap("enter "+ns.Name(), err)
	}
	return f()
}

// openNetlink opens a socket of the thread's namespace, which hears until the deadline.
func openNetlink(protocol int, deadline time.Time) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return -1, err
	}
	left := unix.NsecToTimeval(max(time.Until(deadline), time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// devicesHere lists the devices, again where one came or went meanwhile.
func devicesHere(deadline time.Time) ([]string, error) {
	return retry(func() ([]string, error) { return listDevices(deadline) })
}

func listDevices(deadline time.Time) ([]string, error) {
	fd, err := openNetlink(unix.NETLINK_RDMA, deadline)
	if err != nil {
		return nil, wrap("open RDMA netlink", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, listRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, wrap("ask RDMA netlink", err)
	}
	return readNames(receive(fd))
}

// Numbers of include/uapi/rdma/rdma_netlink.h.
const (
	rdmaGetDevices = 5<<10 | 1 // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET
	attrDeviceName = 2         // RDMA_NLDEV_ATTR_DEV_NAME
)

// listRequest is a struct nlmsghdr that asks for all devices.
func listRequest() []byte {
	h := unix.NlMsghdr{Len: unix.NLMSG_HDRLEN, Type: rdmaGetDevices, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP, Seq: 1}
	return unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.NLMSG_HDRLEN)
}

// readNames reads the answer until its end. A part of it is none: what is missing there may
// be on the host all the same.
func readNames(read func([]byte) (int, error)) ([]string, error) {
	var names []string
	interrupted := false
	for {
		messages, err := readMessages(read)
		if err != nil {
			return nil, wrap("hear RDMA netlink", err)
		}
		for _, m := range messages {
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR, unix.NLMSG_OVERRUN:
				if err := ending(m, interrupted); err != nil {
					return nil, wrap("list the devices by RDMA netlink", err)
				}
				return names, nil
			}
			if name := text(m.Data, attrDeviceName); name != "" {
				names = append(names, name)
			}
		}
	}
}

// readMessages reads the messages of one datagram.
func readMessages(read func([]byte) (int, error)) ([]syscall.NetlinkMessage, error) {
	buf := make([]byte, 64<<10)
	n, err := read(buf)
	for err == unix.EINTR {
		n, err = read(buf)
	}
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil || n == 0 {
		return nil, errors.New("the answer is not understood")
	}
	return messages, nil
}

// text finds an attribute that is text, "" without one.
func text(b []byte, kind uint16) string {
	for len(b) >= unix.SizeofNlAttr {
		a := *(*unix.NlAttr)(unsafe.Pointer(&b[0]))
		if int(a.Len) < unix.SizeofNlAttr || int(a.Len) > len(b) {
			return ""
		}
		if a.Type == kind {
			value, _, _ := strings.Cut(string(b[unix.SizeofNlAttr:a.Len]), "\x00")
			return value
		}
		b = b[min(len(b), (int(a.Len)+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return ""
}
