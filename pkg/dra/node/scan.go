package node

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Rescan reads the whole host, and signals a change to Run. It may be called by any goroutine.
func (n *Node) Rescan() error { return n.read((*rdma.Scanner).Scan) }

// update reads what may have changed, and signals a change to Run.
func (n *Node) update(c rdma.Changes) error {
	return n.read(func(s *rdma.Scanner) (*rdma.Snapshot, error) { return s.Update(c) })
}

func (n *Node) read(how func(*rdma.Scanner) (*rdma.Snapshot, error)) error {
	n.Moves.scan.Lock()
	defer n.Moves.scan.Unlock()
	snap, err := how(n.scanner)
	if err != nil {
		return fmt.Errorf("discover the RDMA devices below %q: %w", n.cfg.HostRoot, err)
	}
	var diff rdma.Difference
	var unknown, first bool
	n.replace(func(h *Host) {
		before := h.Snapshot
		h.inPod = nil
		if n.Moves.applyTo(snap) {
			snap = h.addMoved(snap)
		}
		h.Snapshot = snap
		diff, first = rdma.Compare(before, snap), before == nil
		unknown = h.see(diff.HCAs)
	})
	if unknown {
		n.unsaved.Store(true)
	}
	if !first && (diff.Reshaped || diff.Host) { // after the new value: Run reads it
		n.reshaped.Store(true)
		n.changed.Set()
	}
	return nil
}

// addMoved adds the HCAs that are in the network namespaces of pods. They count as present: all general properties of
// such an HCA stay the same, and only its nodes change.
func (h *Host) addMoved(snap *rdma.Snapshot) *rdma.Snapshot {
	var missing []rdma.HCA
	for name, hca := range h.seen {
		if snap.Lookup(name) == nil {
			missing = append(missing, *hca)
		}
	}
	h.inPod = map[string]bool{}
	moved := rdma.Elsewhere(h.Sys, missing)
	for _, hca := range moved {
		h.inPod[hca.Name] = true
	}
	if len(moved) == 0 {
		return snap
	}
	snap = snap.With(moved...)
	if h.Snapshot != nil && rdma.Compare(h.Snapshot, snap).Empty() {
		return h.Snapshot
	}
	return snap
}

// see stores the present state of the named HCAs that are usable. It reports whether one of them was unknown.
func (h *Host) see(names []string) (unknown bool) {
	cloned := false
	for _, name := range names {
		hca := h.Lookup(name)
		if hca == nil || hca.Unusable() != nil {
			continue
		}
		was, known := h.seen[name]
		if known && (isPart(hca) && !isPart(was) || hca.Foreign() && !was.Foreign()) {
			continue
		}
		if !cloned { // other values of Host share the map
			h.seen, cloned = maps.Clone(h.seen), true
		}
		last := *hca // a copy, so that the snapshot can be freed
		h.seen[name] = &last
		sameDevice := known && (was.Software == hca.Software || was.Software != nil && hca.Software != nil && *was.Software == *hca.Software)
		unknown = unknown || !sameDevice
	}
	return unknown
}

// isPart reports whether an HCA was read while the kernel removed its files, as it does when the HCA moves. A complete
// port has a link layer.
func isPart(hca *rdma.HCA) bool {
	return len(hca.Ports) == 0 || slices.ContainsFunc(hca.Ports, func(p rdma.Port) bool { return p.LinkLayer == "" })
}

// Software returns a function that asks the kernel about a software HCA, for [rdma.Scanner]. It returns nil without an
// answer.
func Software(kernel Genl) func(ibdev string) *rdma.Software {
	return func(ibdev string) *rdma.Software {
		if kernel == nil {
			return nil
		}
		s, err := kernel.Software(ibdev)
		if err != nil {
			return nil
		}
		return s
	}
}

// software is [Software] for a driver: an interface that it may have moved into a pod counts as the host's. Several
// goroutines call it.
func (n *Node) software(ibdev string) *rdma.Software {
	s := Software(n.cfg.Genl)(ibdev)
	if s != nil && s.Netdev == "" {
		s.Netdev = movedFrom(n.Host(), n.cfg.Store, s.Index)
	}
	return s
}

// movedFrom returns the interface that the host had below an RDMA device, if a prepared claim moves the device's
// interface into its pod. The kernel's number of the device shows that it is the same one.
func movedFrom(host *Host, store *claimstore.Store, index uint32) string {
	for name, hca := range host.seen {
		if hca.Software == nil || hca.Software.Index != index || hca.Software.Netdev == "" {
			continue
		}
		plans, _ := store.List() // View reports unreadable records
		if slices.ContainsFunc(plans, func(p *plan.Plan) bool { return moves(p, name) }) {
			return hca.Software.Netdev
		}
	}
	return ""
}

// moves reports whether a claim gets the interface of an HCA itself.
func moves(p *plan.Plan, hca string) bool {
	return slices.ContainsFunc(p.Devices, func(d plan.Device) bool {
		return d.Network != nil && d.Network.Mode == v1alpha1.NetworkMove && slices.Contains(d.HCAs(), hca)
	})
}
