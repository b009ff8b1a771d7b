package rdmanetns

import (
	"errors"
	"io/fs"
)

// Host moves devices of the network namespace of this process, which must be the host's.
type Host struct{ own *Namespace }

// NewHost opens the namespace of this process, and keeps it open.
func NewHost() (*Host, error) {
	own, err := Own()
	if err != nil {
		return nil, err
	}
	return &Host{own}, nil
}

// Movable returns an error with ErrFixed if the kernel cannot move a device of the host.
func (h *Host) Movable(ibdev string) error { return Movable(ibdev, h.own) }

// In moves a device of the host into the namespace of a path. It is idempotent.
func (h *Host) In(ibdev, netns string) (moved bool, err error) {
	to, err := Open(netns)
	if err != nil {
		return false, err
	}
	defer to.Close()
	return Move(ibdev, h.own, to)
}

// Out moves a device back to the host. It is idempotent. It returns no error if the namespace has ended or does not
// have the device, because the kernel moves the devices of an ended namespace back.
func (h *Host) Out(ibdev, netns string) (moved bool, err error) {
	from, err := Open(netns)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer from.Close()
	moved, err = Move(ibdev, from, h.own)
	if errors.Is(err, ErrAbsent) {
		err = nil
	}
	return moved, err
}
