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
type HostDevices struct{}

// OwnerOf reads sysfs, whose class of verbs nodes is the same in all namespaces.
func (HostDevices) OwnerOf(uverbs string) (string, error) {
	b, err := os.ReadFile("/sys/class/infiniband_verbs/" + uverbs + "/ibdev")
	return strings.TrimSpace(string(b)), err
}

// Here asks the kernel over a socket of that namespace. The thread that makes it stays in
// the namespace, and is used for nothing else.
func (HostDevices) Here(pid int, deadline time.Time) ([]string, error) {
	type answer struct {
		names []string
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		runtime.LockOSThread()
		names, err := devicesOf(pid, deadline)
		done <- answer{names, err}
	}()
	a := <-done
	return a.names, a.err
}

func devicesOf(pid int, deadline time.Time) ([]string, error) {
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, wrap("enter "+ns.Name(), err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return nil, wrap("open RDMA netlink", err)
	}
	defer unix.Close(fd)
	left := unix.NsecToTimeval(max(time.Until(deadline), time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left); err != nil {
		return nil, wrap("bound RDMA netlink", err)
	}
	if err := unix.Sendto(fd, listRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, wrap("ask RDMA netlink", err)
	}
	return readNames(func(b []byte) (int, error) { return unix.Read(fd, b) })
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

// readNames reads the answer until its end.
func readNames(read func([]byte) (int, error)) ([]string, error) {
	var names []string
	buf := make([]byte, 64<<10)
	for {
		n, err := read(buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, wrap("hear RDMA netlink", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil || n == 0 {
			return nil, errors.New("RDMA netlink gave an answer that is not understood")
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return names, nil
			case unix.NLMSG_ERROR:
				return nil, errors.New("RDMA netlink refused to list the devices")
			}
			if name := deviceName(m.Data); name != "" {
				names = append(names, name)
			}
		}
	}
}

// deviceName finds the name among the attributes of a device.
func deviceName(b []byte) string {
	for len(b) >= unix.SizeofNlAttr {
		a := *(*unix.NlAttr)(unsafe.Pointer(&b[0]))
		if int(a.Len) < unix.SizeofNlAttr || int(a.Len) > len(b) {
			return ""
		}
		if a.Type == attrDeviceName {
			name, _, _ := strings.Cut(string(b[unix.SizeofNlAttr:a.Len]), "\x00")
			return name
		}
		b = b[min(len(b), (int(a.Len)+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return ""
}
