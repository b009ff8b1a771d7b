package hook

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// ErrAway is in the error of a device that is not in the container's network namespace.
var ErrAway = errors.New("the container can start once this is corrected")

// Devices looks up devices of the host.
type Devices interface {
	// Here lists the RDMA devices in the network namespace of a process.
	Here(pid int, deadline time.Time) ([]string, error)
	// OwnerOf returns the RDMA device of a verbs node.
	OwnerOf(uverbs string) (string, error)
	// Alias returns the alias of an interface in the network namespace of a process.
	Alias(pid int, name string, deadline time.Time) (alias string, found bool, err error)
	// CheckNodes returns an error that names nodes of other RDMA devices.
	CheckNodes(want []args.NodeOwner) (warning string, err error)
}

// CheckPresences returns an error that names each device that is missing in the network namespace of the process, and
// each device with another verbs node than the container's.
func CheckPresences(d Devices, pid int, want []args.Presence, deadline time.Time) error {
	here, err := d.Here(pid, deadline)
	if err != nil {
		return wrap("look for RDMA devices in the container's network namespace", err)
	}
	var errs []error
	for _, p := range want {
		if !slices.Contains(here, p.IBDev) {
			errs = append(errs, fmt.Errorf("RDMA device %s of the claim is not in the pod's network namespace: the RDMA driver "+
				"of this node has not moved it yet, see its log: %w", p.IBDev, ErrAway))
			continue
		}
		if owner, err := d.OwnerOf(p.Uverbs); err != nil || owner != p.IBDev {
			errs = append(errs, fmt.Errorf("node %s is not that of RDMA device %s any more: the device was moved after the "+
				"CDI spec was written: %w", p.Uverbs, p.IBDev, ErrAway))
		}
	}
	return errors.Join(errs...)
}

// HostDevices are the devices of this host.
type HostDevices struct {
	Sys string // the sysfs for CheckNodes, "" for /sys
}

// OwnerOf reads sysfs. The class of verbs nodes is the same in all namespaces.
func (HostDevices) OwnerOf(uverbs string) (string, error) {
	b, err := os.ReadFile("/sys/class/infiniband_verbs/" + uverbs + "/ibdev")
	return strings.TrimSpace(string(b)), err
}

// Here asks the kernel through a socket in that namespace.
func (HostDevices) Here(pid int, deadline time.Time) (names []string, err error) {
	err = inNamespaceOf(pid, func() error {
		names, err = retry(func() ([]string, error) { return listDevices(deadline) })
		return err
	})
	return names, err
}

// inNamespaceOf runs f in the network namespace of a process.
func inNamespaceOf(pid int, f func() error) (err error) {
	thread.Do(func() { err = enter(pid, f) })
	return err
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

// ask sends a request from a socket in the thread's namespace. The socket receives until the deadline.
func ask(what string, protocol int, request []byte, deadline time.Time) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return -1, wrap("open "+what, err)
	}
	left := unix.NsecToTimeval(max(time.Until(deadline), time.Millisecond).Nanoseconds())
	err = wrap("open "+what, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left))
	if err == nil {
		err = wrap("ask "+what, unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

func listDevices(deadline time.Time) ([]string, error) {
	fd, err := ask("RDMA netlink", unix.NETLINK_RDMA, listRequest(), deadline)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readNames(receive(fd))
}

// Numbers of include/uapi/rdma/rdma_netlink.h.
const (
	rdmaGetDevices = 5<<10 | 1 // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET
	attrDeviceName = 2         // RDMA_NLDEV_ATTR_DEV_NAME
)

// listRequest is a struct nlmsghdr that asks for all devices.
func listRequest() []byte {
	const flags = unix.NLM_F_REQUEST | unix.NLM_F_DUMP
	h := unix.NlMsghdr{Len: unix.NLMSG_HDRLEN, Type: rdmaGetDevices, Flags: flags, Seq: 1}
	return unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.NLMSG_HDRLEN)
}

// readNames reads the complete answer. A part of the answer must not be used: the rest may have more devices.
func readNames(read func([]byte) (int, error)) ([]string, error) {
	var names []string
	interrupted := false
	for {
		messages, err := readMessages(read)
		if err != nil {
			return nil, wrap("receive from RDMA netlink", err)
		}
		for _, m := range messages {
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR, unix.NLMSG_OVERRUN:
				if err := checkEnd(m, interrupted); err != nil {
					return nil, wrap("list devices through RDMA netlink", err)
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
	buf := make([]byte, 128<<10) // an interface can have 64 KiB of alternative names, besides the rest
	n, err := read(buf)
	for err == unix.EINTR {
		n, err = read(buf)
	}
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil || n == 0 {
		return nil, errMessage
	}
	return messages, nil
}

// text returns the value of a text attribute, "" if there is none.
func text(b []byte, kind uint16) string {
	for len(b) >= unix.SizeofNlAttr {
		a := *(*unix.NlAttr)(unsafe.Pointer(&b[0]))
		if int(a.Len) < unix.SizeofNlAttr || int(a.Len) > len(b) {
			return ""
		}
		if a.Type == kind {
			return unix.ByteSliceToString(b[unix.SizeofNlAttr:a.Len])
		}
		b = b[min(len(b), (int(a.Len)+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return ""
}
