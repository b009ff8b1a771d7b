package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// ErrMoved means that the kernel rearranged its devices since a snapshot.
var ErrMoved = errors.New("the kernel's RDMA devices have changed")

// Verify checks, with four small reads, that an HCA of an older snapshot is
// still what the kernel has under its names: the ibdev in the same slot, and the
// uverbs number with the same ibdev and device number. A driver reload gives the
// names to other cards, so whoever hands out a node calls it first. The error is
// an ErrMoved; the answer to it is a new snapshot.
func Verify(sys fs.ReadLinkFS, h *HCA) error {
	d := &discovery{sys: sys, snap: &Snapshot{}}
	real, err := d.realpath(path.Join(classInfiniband, h.IBDev))
	if err != nil {
		return fmt.Errorf("%w: HCA %s: %w", ErrMoved, h.IBDev, err)
	}
	if where := locate(d.parentDevice(real)); h.Identity.PCI != "" && where.address != h.Identity.PCI {
		return fmt.Errorf("%w: HCA %s sits on %q now, and sat on %s", ErrMoved, h.IBDev, where.address, h.Identity.PCI)
	}
	if h.Uverbs == nil {
		return nil
	}
	dir := path.Join(classVerbs, h.Uverbs.Name)
	for file, want := range map[string]string{
		"ibdev": h.IBDev,
		"dev":   fmt.Sprintf("%d:%d", h.Uverbs.Major, h.Uverbs.Minor),
	} {
		b, err := fs.ReadFile(sys, path.Join(dir, file))
		if err != nil {
			return fmt.Errorf("%w: node %s: %w", ErrMoved, h.Uverbs.Name, err)
		}
		if got := strings.TrimSpace(string(b)); got != want {
			return fmt.Errorf("%w: %s of node %s is %s now, and was %s", ErrMoved, file, h.Uverbs.Name, got, want)
		}
	}
	return nil
}
