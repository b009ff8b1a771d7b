package rdma

import (
	"context"
	"fmt"
	"io/fs"
)

// The directories of sysfs that are read, relative to /sys.
const (
	classInfiniband = "class/infiniband"
	classVerbs      = "class/infiniband_verbs"
	classMAD        = "class/infiniband_mad"
	classNet        = "class/net"
	fileRDMACMDev   = "class/misc/rdma_cm/dev"
	fileNetnsMode   = "module/ib_core/parameters/netns_mode"
)

// Discover reads the RDMA devices of a host from sys, whose root is the host's
// /sys: os.DirFS("/sys"), or a fixture. It reads each class directory once and
// a fixed number of files for each HCA, so its cost is linear in their number. It reads the VPD of the few cards whose
// purpose or place only VPD says, and waits at most VPDTime for it.
//
// Snapshot.Problems lists the unreadable parts of the host. All other parts are complete. Discover returns an error if
// sys is not the root of a sysfs tree. A host without RDMA is no error: its snapshot has no HCAs.
//
// A program that reads the host repeatedly uses a [Scanner].
func Discover(sys fs.ReadLinkFS) (*Snapshot, error) { return NewScanner(sys).Discover() }

// Discover reads the whole host, and waits for VPD as the function [Discover] does.
func (s *Scanner) Discover() (*Snapshot, error) {
	snap, err := s.Scan()
	if files := s.UnreadVPD(); err == nil && len(files) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), VPDTime)
		defer cancel()
		snap = s.Learn(ReadVPD(ctx, s.sys, files))
	}
	return snap, err
}

// hostPart is the state of the host that belongs to no HCA.
type hostPart struct {
	netnsMode NetnsMode
	rdmaCM    *Node
	problems  []Problem
}

func readHost(sys fs.ReadLinkFS) hostPart {
	r := &reader{sys: sys}
	h := hostPart{netnsMode: parsed(r, fileNetnsMode, parseNetnsMode)}
	if dev, exists := r.lookUp(fileRDMACMDev); exists {
		cm := &Node{Kind: NodeRDMACM, Name: "rdma_cm"}
		if cm.setDev(r, dev) {
			h.rdmaCM = cm
		}
	}
	h.problems = r.problems
	return h
}

// ReadNetnsMode reads the current network namespace mode of the RDMA core. The kernel sends no
// event when the mode changes.
func ReadNetnsMode(sys fs.ReadLinkFS) NetnsMode {
	return parsed(&reader{sys: sys}, fileNetnsMode, parseNetnsMode)
}

// checkSysfs returns an error for a directory that is no sysfs tree. A host without RDMA passes.
func checkSysfs(sys fs.ReadLinkFS) error {
	if _, err := fs.Stat(sys, "class"); err != nil {
		return fmt.Errorf("read sysfs: %w (is this the root of a sysfs tree?)", err)
	}
	return nil
}

// same reports whether the snapshot has the same host state.
func (h hostPart) same(s *Snapshot) bool {
	return h.netnsMode == s.NetnsMode && equalPointers(h.rdmaCM, s.RDMACM)
}
