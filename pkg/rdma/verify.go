package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// ErrChanged means that the kernel's devices differ from the snapshot.
var ErrChanged = errors.New("the kernel's RDMA devices have changed")

// Verify checks that an HCA of an older snapshot still matches the kernel's devices: its ibdev is in the
// same slot with the same GUID, and its uverbs number has the same ibdev and device number. Call it before
// you pass a node to a container, because a driver reload gives the names to other cards. It needs a few
// small reads. Its errors wrap ErrChanged; take a new snapshot then.
func Verify(sys fs.ReadLinkFS, h *HCA) error {
	r := &reader{sys: sys}
	real, err := r.realpath(path.Join(classInfiniband, h.IBDev))
	if err != nil {
		return fmt.Errorf("%w: HCA %s: %w", ErrChanged, h.IBDev, err)
	}
	if err := r.sameSlot(h, real); err != nil {
		return fmt.Errorf("%w: HCA %s %w", ErrChanged, h.IBDev, err)
	}
	if h.Uverbs != nil {
		if err := sameFile(sys, classVerbs, h.Uverbs, "ibdev", h.IBDev); err != nil {
			return err
		}
		if err := sameFile(sys, classVerbs, h.Uverbs, "dev", h.Uverbs.number()); err != nil {
			return err
		}
	}
	if h.PSM != nil {
		return sameFile(sys, classPSM, h.PSM, "dev", h.PSM.number())
	}
	return nil
}

func (n *Node) number() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// sameFile compares a file of a node with its earlier content.
func sameFile(sys fs.FS, class string, n *Node, file, want string) error {
	b, err := fs.ReadFile(sys, path.Join(class, n.Name, file))
	if err != nil {
		return fmt.Errorf("%w: node %s: %w", ErrChanged, n.Name, err)
	}
	if got := strings.TrimSpace(string(b)); got != want {
		return fmt.Errorf("%w: %s of node %s is %s now, and was %s", ErrChanged, file, n.Name, got, want)
	}
	return nil
}

// sameSlot compares the parts of Identity, and the node GUID, which differs between
// cards that use the same slot one after the other.
func (r *reader) sameSlot(h *HCA, real string) error {
	if err := r.sameCarrier(h, r.parentDevice(real)); err != nil {
		return err
	}
	id := h.Identity
	if id.Kind == "rxe" && h.Software == nil { // else the caller asks RDMA netlink again: a pod may rename the interface
		if netdev := r.optional(path.Join(real, "parent")); netdev != id.Netdev {
			return fmt.Errorf("sits on interface %q now, and sat on %s", netdev, id.Netdev)
		}
	}
	guid, err := ParseGUID(r.optional(path.Join(real, "node_guid")))
	if h.NodeGUID != 0 && (err != nil || guid != h.NodeGUID) {
		return fmt.Errorf("has node GUID %s now, and had %s", guid, h.NodeGUID)
	}
	return nil
}

// sameCarrier compares the device that carries the HCA, or one of its nodes.
func (r *reader) sameCarrier(h *HCA, parent string) error {
	id := h.Identity
	if address := PlaceOf(parent).Address; id.PCI != "" && address != id.PCI {
		return fmt.Errorf("sits on %q now, and sat on %s", address, id.PCI)
	}
	if id.SF != nil {
		if sf := r.optional(path.Join(parent, "sfnum")); sf != strconv.Itoa(*id.SF) {
			return fmt.Errorf("is subfunction %s now, and was %d", sf, *id.SF)
		}
	}
	return nil
}
