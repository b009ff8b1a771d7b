package podnet

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The package reads interfaces by itself. The netlink library reads each datagram into a buffer of 64 KiB, and asks for
// the virtual functions of each interface. An interface with 220 virtual functions, or with the alternative names that
// a pod can give it, is larger, and the library then reads none. It also keeps all that it has read. A pod decides how
// many interfaces its namespace has, so what is read there is looked at, and not kept.

const (
	// maxDatagram is more than the kernel needs for one interface: each of its lists has at most 64 KiB.
	maxDatagram = 1 << 20
	// maxAnswer and answerTime bound one list. 64 MiB are about 40,000 interfaces.
	maxAnswer  = 64 << 20
	answerTime = 10 * time.Second

	// skipStatistics is RTEXT_FILTER_SKIP_STATS of include/uapi/linux/rtnetlink.h.
	skipStatistics = 1 << 3
)

var (
	// errNoLink means that no interface has the name or the index.
	errNoLink = errors.New("there is no such interface")
	errMany   = errors.New("the network namespace has more interfaces than the driver reads: " +
		"the kernel returns those of the host when the namespace ends")
	errSlowAnswer = fmt.Errorf("the kernel did not answer within %v", answerTime)
)

// linkByName returns the interface of a name in the thread's namespace, or errNoLink.
func linkByName(name string) (netlink.Link, error) {
	return oneLink(0, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
}

// linkByIndex returns the interface of an index in the thread's namespace, or errNoLink.
func linkByIndex(index int) (netlink.Link, error) { return oneLink(index) }

// allLinks returns all interfaces of the thread's namespace, which must be the host's: those of a pod may fill the
// memory.
func allLinks() ([]netlink.Link, error) {
	return whole(func() (all []netlink.Link, err error) {
		err = eachLink(func(l netlink.Link) bool { all = append(all, l); return true })
		return all, err
	})
}

// eachLink calls visit with the interfaces of the thread's namespace until it returns false. An unparsable interface is
// passed as type unreadable; the list goes on.
func eachLink(visit func(netlink.Link) (more bool)) error {
	return ask(linkRequest(unix.NLM_F_DUMP, 0), maxAnswer, func(data []byte) bool { return visit(readLink(data)) })
}

func readLink(data []byte) netlink.Link {
	link, err := netlink.LinkDeserialize(nil, data)
	if err != nil {
		return unreadableLink(data)
	}
	return link
}

func oneLink(index int, attrs ...*nl.RtAttr) (link netlink.Link, err error) {
	data, err := linkMessage(index, attrs...)
	if err != nil {
		return nil, err
	}
	if link, err = netlink.LinkDeserialize(nil, data); err != nil {
		broken := unreadableLink(data)
		return nil, fmt.Errorf("read network interface %q (index %d): %w", broken.Name, broken.Index, err)
	}
	return link, nil
}

// linkMessage returns the kernel's message (RTM_NEWLINK) of one interface, or errNoLink.
func linkMessage(index int, attrs ...*nl.RtAttr) (data []byte, err error) {
	err = ask(linkRequest(unix.NLM_F_ACK, index, attrs...), maxAnswer,
		func(answer []byte) bool { data = answer; return true })
	if errors.Is(err, unix.ENODEV) || err == nil && data == nil {
		err = errNoLink
	}
	return data, err
}

// unreadable is the type of an interface that cannot be read.
const unreadable = "unreadable"

// unreadableLink returns what can be read of an interface. The kernel sends the name first.
func unreadableLink(data []byte) *netlink.GenericLink {
	l := &netlink.GenericLink{LinkAttrs: netlink.NewLinkAttrs(), LinkType: unreadable}
	l.NetNsID = -1
	const nameAt = unix.SizeofIfInfomsg + unix.SizeofRtAttr
	if len(data) < nameAt {
		return l
	}
	l.Index = int(nl.DeserializeIfInfomsg(data).Index)
	if nl.NativeEndian().Uint16(data[unix.SizeofIfInfomsg+2:]) == unix.IFLA_IFNAME {
		l.Name = unix.ByteSliceToString(data[nameAt:min(len(data), nameAt+unix.IFNAMSIZ)])
	}
	return l
}

// linkRequest asks for interfaces without their virtual functions and statistics.
func linkRequest(flags, index int, attrs ...*nl.RtAttr) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, flags)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
	for _, a := range attrs {
		req.AddData(a)
	}
	return req
}

// ask sends a request for interfaces, and calls visit with each of them until it returns false. If the answer has more
// than most bytes, it returns errMany. The socket is of the thread's namespace, where a pod may send to it, so only the
// kernel's messages count, and the time is bounded.
func ask(req *nl.NetlinkRequest, most int, visit func(data []byte) (more bool)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open route netlink: %w", err)
	}
	defer unix.Close(fd)
	deadline, timeout := time.Now().Add(answerTime), unix.NsecToTimeval(answerTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("open route netlink: %w", err)
	}
	if err := unix.Sendto(fd, req.Serialize(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask route netlink: %w", err)
	}
	a := answer{seq: req.Seq, visit: visit}
	peek := make([]byte, 32<<10) // the kernel fills its datagrams up to this size
	for size := 0; size <= most; {
		if time.Now().After(deadline) {
			return errSlowAnswer
		}
		datagram, fromKernel, err := receive(fd, peek)
		size += len(datagram)
		switch {
		case err != nil:
			return err
		case !fromKernel:
			continue
		}
		if end, err := a.read(datagram); end || err != nil {
			return err
		}
	}
	return errMany
}

// receive reads one datagram, whatever its size.
func receive(fd int, peek []byte) (datagram []byte, fromKernel bool, err error) {
	size, _, err := recvfrom(fd, peek, unix.MSG_PEEK|unix.MSG_TRUNC)
	if err == nil && size > maxDatagram {
		err = fmt.Errorf("receive from route netlink: a message has %d bytes", size)
	}
	if err != nil {
		return nil, false, err
	}
	datagram = make([]byte, size) // of its own, because links refer to it
	_, from, err := recvfrom(fd, datagram, 0)
	sender, ok := from.(*unix.SockaddrNetlink)
	return datagram, ok && sender.Pid == 0, err
}

func recvfrom(fd int, b []byte, flags int) (n int, from unix.Sockaddr, err error) {
	for {
		n, from, err = unix.Recvfrom(fd, b, flags)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return 0, nil, errSlowAnswer
		case err != nil:
			return 0, nil, fmt.Errorf("receive from route netlink: %w", err)
		default:
			return n, from, nil
		}
	}
}

// answer is what the kernel has sent so far.
type answer struct {
	seq         uint32
	interrupted bool
	visit       func(data []byte) (more bool)
}

// read reads the messages of a datagram, and reports whether that was the end.
func (a *answer) read(datagram []byte) (end bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return true, fmt.Errorf("receive from route netlink: %w", err)
	}
	for _, m := range messages {
		a.interrupted = a.interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
		switch {
		case m.Header.Seq != a.seq:
		case m.Header.Type == unix.NLMSG_DONE, m.Header.Type == unix.NLMSG_ERROR:
			if err := errnoOf(m.Data); err != nil {
				return true, err
			}
			if a.interrupted {
				return true, netlink.ErrDumpInterrupted
			}
			return true, nil
		case m.Header.Type == unix.RTM_NEWLINK && len(m.Data) >= unix.SizeofIfInfomsg && !a.visit(m.Data):
			return true, nil
		}
	}
	return false, nil
}

// errnoOf returns the error of the last message. Older kernels send none at the end of a list.
func errnoOf(data []byte) error {
	if len(data) < 4 {
		return nil
	}
	if errno := unix.Errno(-int32(nl.NativeEndian().Uint32(data))); errno != 0 {
		return errno
	}
	return nil
}
