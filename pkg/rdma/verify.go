package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// ErrMoved means that the kernel rearranged its devices since a snapshot.
var ErrMoved = errors.New("the kernel's RDMA devices have changed")

// Verify checks, with a handful of small reads, that an HCA of an older snapshot
// is still what the kernel has under its names: the ibdev in the same slot and
// with the same GUID, and the uverbs number with the same ibdev and device number.
// A driver reload gives the names to other cards, so whoever hands out a node
// calls it first. The error is an ErrMoved; the answer to it is a new snapshot.
func Verify(sys fs.ReadLinkFS, h *HCA) error {
	r := &reader{sys: sys}
	real, err := r.realpath(path.Join(classInfiniband, h.IBDev))
	if err != nil {
		return fmt.Errorf("%w: HCA %s: %w", ErrMoved, h.IBDev, err)
	}
	if err := r.sameSlot(h, real); err != nil {
		return fmt.Errorf("%w: HCA %s %w", ErrMoved, h.IBDev, err)
	}
	if h.Uverbs == nil {
		return nil
	}
	dev := fmt.Sprintf("%d:%d", h.Uverbs.Major, h.Uverbs.Minor)
	for _, f := range []struct{ file, want string }{{"ibdev", h.IBDev}, {"dev", dev}} {
		b, err := fs.ReadFile(sys, path.Join(classVerbs, h.Uverbs.Name, f.file))
		if err != nil {
			return fmt.Errorf("%w: node %s: %w", ErrMoved, h.Uverbs.Name, err)
		}
		if got := strings.TrimSpace(string(b)); got != f.want {
			return fmt.Errorf("%w: %s of node %s is %s now, and was %s", ErrMoved, f.file, h.Uverbs.Name, got, f.want)
		}
	}
	return nil
}

// sameSlot compares what Identity is made of, and the node GUID, which tells
// apart what else could sit in the slot.
func (r *reader) sameSlot(h *HCA, real string) error {
	if err := r.sameCarrier(h, r.parentDevice(real)); err != nil {
		return err
	}
	id := h.Identity
	if id.Kind == "rxe" {
		if netdev := r.optional(path.Join(real, "parent")); netdev != id.Netdev {
			return fmt.Errorf("sits on interface %q now, and sat on %s", netdev, id.Netdev)
		}
	}
	if guid, err := ParseGUID(r.optional(path.Join(real, "node_guid"))); h.NodeGUID != 0 && (err != nil || guid != h.NodeGUID) {
		return fmt.Errorf("has node GUID %s now, and had %s", guid, h.NodeGUID)
	}
	return nil
}

// sameCarrier compares the device that carries the HCA, or one of its nodes.
func (r *reader) sameCarrier(h *HCA, parent string) error {
	id := h.Identity
	if address := locate(parent).address; id.PCI != "" && address != id.PCI {
		return fmt.Errorf("sits on %q now, and sat on %s", address, id.PCI)
	}
	if id.SF != nil {
		if sf := r.optional(path.Join(parent, "sfnum")); sf != strconv.Itoa(*id.SF) {
			return fmt.Errorf("is subfunction %s now, and was %d", sf, *id.SF)
		}
	}
	return nil
}
