package rdmanetns

import (
	"errors"
	"io/fs"
)

// Host moves the devices of the network namespace that this process is in, which has to
// be the host's.
type Host struct{ own *Namespace }

// NewHost holds the namespace open.
func NewHost() (*Host, error) {
	own, err := Own()
	if err != nil {
		return nil, err
	}
	return &Host{own}, nil
}

// Movable returns an ErrFixed if a device of the host cannot be moved.
func (h *Host) Movable(ibdev string) error { return Movable(ibdev, h.own) }

// In moves a device of the host into the namespace of a path, unless it is there.
func (h *Host) In(ibdev, netns string) (moved bool, err error) {
	to, err := Open(netns)
	if err != nil {
		return false, err
	}
	defer to.Close()
	return Move(ibdev, h.own, to)
}

// Out moves a device back to the host. A namespace that has ended, or does not have the
// device, is no error: the kernel brings back what was there.
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
