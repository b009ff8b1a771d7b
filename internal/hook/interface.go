package hook

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// CheckInterfaces returns an error that names each missing interface of the process's network namespace, and each
// interface with another alias.
func CheckInterfaces(d Devices, pid int, want []args.Interface, deadline time.Time) error {
	var errs []error
	for _, i := range want {
		alias, found, err := d.Alias(pid, i.Name, deadline)
		switch {
		case err != nil:
			errs = append(errs, wrap("look for interface "+i.Name+" in the container's network namespace", err))
		case !found:
			errs = append(errs, fmt.Errorf("network interface %s of the claim is not in the pod's network namespace: the RDMA "+
				"driver of this node has not attached it yet, see its log; a pod with the host's network gets none: %w",
				i.Name, ErrAway))
		case alias != i.Alias:
			errs = append(errs, fmt.Errorf("network interface %s in the pod's network namespace is not that of the claim: "+
				"another program made it; use another name in the claim (network.interface): %w", i.Name, ErrAway))
		}
	}
	return errors.Join(errs...)
}

// Alias asks the kernel through a socket in the network namespace of a process.
func (HostDevices) Alias(pid int, name string, deadline time.Time) (alias string, found bool, err error) {
	err = inNamespaceOf(pid, func() error {
		alias, found, err = aliasOf(name, deadline)
		return err
	})
	return alias, found, err
}

func aliasOf(name string, deadline time.Time) (alias string, found bool, err error) {
	fd, err := ask("route netlink", unix.NETLINK_ROUTE, linkRequest(name), deadline)
	if err != nil {
		return "", false, err
	}
	defer unix.Close(fd)
	return readAlias(receive(fd))
}

// linkRequest is a request for the interface of a name.
func linkRequest(name string) []byte {
	value := append([]byte(name), 0)
	length := unix.SizeofNlAttr + len(value)
	padded := (length + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1)
	b := make([]byte, unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg+padded)
	*(*unix.NlMsghdr)(unsafe.Pointer(&b[0])) = unix.NlMsghdr{
		Len: uint32(len(b)), Type: unix.RTM_GETLINK, Flags: unix.NLM_F_REQUEST, Seq: 1,
	}
	attr := b[unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg:]
	*(*unix.NlAttr)(unsafe.Pointer(&attr[0])) = unix.NlAttr{Len: uint16(length), Type: unix.IFLA_IFNAME}
	copy(attr[unix.SizeofNlAttr:], value)
	return b
}

// readAlias reads the answer, which is one message.
func readAlias(read func([]byte) (int, error)) (alias string, found bool, err error) {
	messages, err := readMessages(read)
	if err != nil {
		return "", false, wrap("receive from route netlink", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
			errno := unix.Errno(-*(*int32)(unsafe.Pointer(&m.Data[0])))
			if errno == unix.ENODEV {
				return "", false, nil
			}
			return "", false, wrap("route netlink", errno)
		case m.Header.Type == unix.RTM_NEWLINK && len(m.Data) >= unix.SizeofIfInfomsg:
			return text(m.Data[unix.SizeofIfInfomsg:], unix.IFLA_IFALIAS), true, nil
		}
	}
	return "", false, wrap("receive from route netlink", errMessage)
}
