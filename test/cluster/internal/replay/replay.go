// Package replay plays the kernel's messages about links to a driver on a fixture host.
package replay

import (
	"encoding/binary"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
)

// Links is a source of events that plays what it is given.
type Links struct {
	datagrams chan []byte
	closed    chan struct{}
	once      sync.Once
}

// New returns a source that has nothing to play.
func New() *Links { return &Links{datagrams: make(chan []byte), closed: make(chan struct{})} }

// Change plays that a link went up or down. It returns when the driver has read the message, or the source is closed.
func (r *Links) Change(index uint32, name string, up bool) {
	select {
	case r.datagrams <- linkMessage(index, name, up):
	case <-r.closed:
	}
}

// Read implements io.Reader.
func (r *Links) Read(p []byte) (int, error) {
	select {
	case d := <-r.datagrams:
		return copy(p, d), nil
	case <-r.closed:
		return 0, os.ErrClosed
	}
}

// Close implements io.Closer.
func (r *Links) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

// Events are these links as the driver's only source of events.
func (r *Links) Events() watch.Config {
	silent := func() (io.ReadCloser, error) { return New(), nil }
	return watch.Config{Uevents: silent, RDMA: silent, Links: func() (io.ReadCloser, error) { return r, nil }}
}

// linkMessage is what rtnetlink says of a link that goes up or down.
func linkMessage(index uint32, name string, up bool) []byte {
	flags := uint32(unix.IFF_BROADCAST | unix.IFF_MULTICAST)
	if up {
		flags |= unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	}
	attribute := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(name)+1))
	attribute = binary.NativeEndian.AppendUint16(attribute, unix.IFLA_IFNAME)
	attribute = append(append(attribute, name...), 0)
	attribute = append(attribute, make([]byte, -len(attribute)&3)...)

	length := unix.SizeofNlMsghdr + unix.SizeofIfInfomsg + len(attribute)
	b := binary.NativeEndian.AppendUint32(nil, uint32(length))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_NEWLINK)
	b = append(b, make([]byte, unix.SizeofNlMsghdr-len(b))...)
	b = append(b, unix.AF_UNSPEC, 0, 1, 0)
	b = binary.NativeEndian.AppendUint32(b, index)
	b = binary.NativeEndian.AppendUint32(b, flags)
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, attribute...)
}
