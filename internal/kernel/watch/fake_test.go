package watch

import (
	"encoding/binary"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fake plays messages; an error in it is what Read returns.
type fake struct{ messages chan any }

func (f fake) Read(p []byte) (int, error) {
	switch m := (<-f.messages).(type) {
	case string:
		return copy(p, m), nil
	case error:
		return 0, m
	}
	return 0, os.ErrClosed // the channel was closed
}

func (f fake) Close() error { return nil }

// closable is a fake whose Close ends a Read, as that of a socket does.
type closable struct {
	fake
	closed chan struct{}
}

func newClosable() *closable {
	return &closable{fake{make(chan any)}, make(chan struct{})}
}

func (c *closable) Read(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, os.ErrClosed
	case m := <-c.messages:
		if err, ok := m.(error); ok {
			return 0, err
		}
		return copy(p, m.(string)), nil
	}
}

func (c *closable) Close() error {
	if c.isOpen() {
		close(c.closed)
	}
	return nil
}

func (c *closable) isOpen() bool {
	select {
	case <-c.closed:
		return false
	default:
		return true
	}
}

// uevent writes a message as the kernel does.
func uevent(action, devPath, subsystem string, more ...string) string {
	fields := append([]string{action + "@" + devPath, "ACTION=" + action, "DEVPATH=" + devPath, "SUBSYSTEM=" + subsystem},
		more...)
	return strings.Join(append(fields, "SEQNUM=4711", ""), "\x00")
}

var rxeAdd = uevent("add", "/devices/virtual/infiniband/rxe0", "infiniband")

// message is a netlink message.
func message(kind, flags uint16, header []byte, attributes ...string) string {
	b := make([]byte, unix.SizeofNlMsghdr, 256)
	b = append(b, header...)
	for _, a := range attributes {
		b = append(b, a...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags)
	return string(b)
}

// attribute is one of a netlink message, with what fills it up to four bytes.
func attribute(kind uint16, value string) string {
	b := make([]byte, unix.SizeofNlAttr, 64)
	binary.NativeEndian.PutUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	b = append(b, value...)
	return string(append(b, make([]byte, -len(b)&3)...))
}

const (
	up   = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	down = 0
)

// linkMessage is what rtnetlink says of a link.
func linkMessage(kind, flags uint16, index int, name string, state uint32, attributes ...string) string {
	info := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(info[4:], uint32(index))
	binary.NativeEndian.PutUint32(info[8:], state)
	return message(kind, flags, info, append([]string{attribute(unix.IFLA_IFNAME, name+"\x00")}, attributes...)...)
}

func newLink(index int, name string, state uint32) string {
	return linkMessage(unix.RTM_NEWLINK, 0, index, name, state)
}

// addressMessage is what rtnetlink says of an address.
func addressMessage(kind uint16, index int, ip string, flags byte) string {
	info := []byte{unix.AF_INET, 24, flags, 0, 0, 0, 0, 0}
	binary.NativeEndian.PutUint32(info[4:], uint32(index))
	return message(kind, 0, info, attribute(unix.IFA_ADDRESS, ip), attribute(unix.IFA_LOCAL, ip))
}

const rdmaEventType = 102 // RDMA_NLDEV_ATTR_EVENT_TYPE

// rdmaMessage is an RDMA notification.
func rdmaMessage(event byte, attributes ...string) string {
	return message(rdmaMonitor, 0, nil, append(attributes, attribute(rdmaEventType, string([]byte{event})))...)
}
