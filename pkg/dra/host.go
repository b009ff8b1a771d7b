package dra

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/podmeta"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// host is the node's hardware: the last snapshot, and how to get a new one.
type host struct {
	root   string
	sys    fs.ReadLinkFS
	second secondOpinion

	moves moves

	scan    sync.Mutex // held while the host is read, so that no older picture replaces a newer one
	scanner *rdma.Scanner
	mu      sync.RWMutex
	snap    *rdma.Snapshot
	seen    map[string]*rdma.HCA // each usable HCA, as it was last
	away    map[string]bool      // those in the network namespaces of pods
	unsaved atomic.Bool          // one was seen that was not known

	reshaped atomic.Bool // specs of claims may not fit any more

	changed chan struct{} // whoever read the host anew found it reshaped, or judges it by another policy
}

// openHost reads the host for the first time.
func openHost(root string) (*host, error) {
	second, err := rdmamap.Open(root)
	if err != nil {
		return nil, err
	}
	sys := sysfs.DirFS(filepath.Join(root, "sys"))
	h := &host{root: root, sys: sys, second: secondOpinion{ask: second.DevicesForPCI}, scanner: rdma.NewScanner(sys), seen: map[string]*rdma.HCA{}, changed: make(chan struct{}, 1)}
	if _, err := h.rescan(); err != nil {
		return nil, err
	}
	return h, nil
}

// snapshot returns the last snapshot, which nobody changes.
func (h *host) snapshot() *rdma.Snapshot {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.snap
}

// rescan reads the whole host anew, and announces a change.
func (h *host) rescan() (*rdma.Snapshot, error) { return h.read((*rdma.Scanner).Scan) }

// update reads what may have changed, and announces a change.
func (h *host) update(c rdma.Changes) error {
	_, err := h.read(func(s *rdma.Scanner) (*rdma.Snapshot, error) { return s.Update(c) })
	return err
}

// poll reads what changes without an event of the kernel, and announces a change.
func (h *host) poll() error {
	_, err := h.read(func(s *rdma.Scanner) (*rdma.Snapshot, error) { return s.Update(s.Poll()) })
	return err
}

func (h *host) read(how func(*rdma.Scanner) (*rdma.Snapshot, error)) (*rdma.Snapshot, error) {
	h.scan.Lock()
	defer h.scan.Unlock()
	snap, err := how(h.scanner)
	if err != nil {
		return nil, fmt.Errorf("discover the RDMA devices below %q: %w", h.root, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	snap = h.addElsewhere(snap)
	diff := rdma.Compare(h.snap, snap)
	if h.snap != nil && (diff.Reshaped || diff.Host) {
		h.reshaped.Store(true)
		notify(h.changed)
	}
	h.snap = snap
	for _, name := range diff.HCAs {
		if hca := snap.Lookup(name); hca != nil && hca.Unusable() == nil {
			was, known := h.seen[name]
			if known && isPart(hca) && !isPart(was) {
				continue
			}
			if !known {
				h.unsaved.Store(true)
			}
			last := *hca // the snapshot is not kept for it
			h.seen[name] = &last
		}
	}
	return snap, nil
}

// isPart reports whether an HCA was read while the kernel took its files away, as it does when the
// HCA moves: every port has a link layer.
func isPart(hca *rdma.HCA) bool {
	return len(hca.Ports) == 0 || slices.ContainsFunc(hca.Ports, func(p rdma.Port) bool { return p.LinkLayer == "" })
}

// known returns an HCA as it was last, whether it is there or not.
func (h *host) known(name string) (rdma.HCA, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	hca, ok := h.seen[name]
	if !ok {
		return rdma.HCA{}, false
	}
	return *hca, true
}

// heads returns the names of the HCAs of whose card an HCA is a VF or SF, sorted.
func (h *host) heads(name string) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	part := h.seen[name]
	if part == nil || part.PF == "" {
		return nil
	}
	var names []string
	for _, hca := range h.seen {
		if hca.PF == "" && hca.Family() == part.Family() {
			names = append(names, hca.Name)
		}
	}
	slices.Sort(names)
	return names
}

// learn takes over what is known of HCAs that were not seen since the driver started.
func (h *host) learn(hcas []rdma.HCA) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hca := range hcas {
		if _, ok := h.seen[hca.Name]; !ok {
			h.seen[hca.Name] = &hca
		}
	}
}

// worthKnowing returns the HCAs that are there and those of the given names, sorted.
func (h *host) worthKnowing(names []string) []rdma.HCA {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := []rdma.HCA{}
	for _, name := range slices.Sorted(maps.Keys(h.seen)) {
		if h.snap.Lookup(name) != nil || slices.Contains(names, name) {
			out = append(out, *h.seen[name])
		}
	}
	return out
}

// claimSpec is the spec of a claim with the files that it mounts, or why there are none, and the snapshot that both
// were made of.
type claimSpec struct {
	*specs.Spec
	snap     *rdma.Snapshot
	files    []podmeta.File
	errFiles error
}

// spec makes the CDI spec of a plan from what the kernel has now. The snapshot
// it starts from is checked first; one that no longer fits is replaced, once.
func (h *host) spec(p *plan.Plan, hook plan.HookOptions) (*claimSpec, error) {
	made, err := h.specOf(h.snapshot(), p, hook)
	if err == nil {
		return made, nil
	}
	snap, err := h.rescan()
	if err != nil {
		return nil, err
	}
	return h.specOf(snap, p, hook)
}

func (h *host) specOf(snap *rdma.Snapshot, p *plan.Plan, hook plan.HookOptions) (*claimSpec, error) {
	spec, err := p.Spec(snap, hook)
	if err != nil {
		return nil, err
	}
	if err := h.confirm(snap, p); err != nil {
		return nil, err
	}
	return &claimSpec{Spec: spec, snap: snap}, nil
}

// confirm checks that the names which the HCAs of a plan have in a snapshot are theirs now.
func (h *host) confirm(snap *rdma.Snapshot, p *plan.Plan) error {
	for _, d := range p.Devices {
		for _, name := range d.HCAs() {
			if err := h.verify(snap, snap.Lookup(name), d.Settings.Nodes); err != nil {
				return fmt.Errorf("claim %s: device %s: %w", p.Claim(), name, err)
			}
		}
	}
	return nil
}

// verify checks that the kernel's names of an HCA of a plan still lead to its slot,
// by our own reading and by rdmamap's, and that its nodes stand in /dev as sysfs
// says. Ours is of now; rdmamap has confirmed the very names that it found.
func (h *host) verify(snap *rdma.Snapshot, hca *rdma.HCA, classes []cdi.NodeClass) error {
	if h.isAway(hca.Name) {
		return h.verifyAway(snap, hca, classes)
	}
	if err := rdma.Verify(h.sys, hca); err != nil {
		return err
	}
	if err := h.second.confirm(hca); err != nil {
		return err
	}
	return h.checkNodes(snap, hca, classes)
}

// verifyAway is verify for an HCA in a pod's network namespace. The host sees only the nodes of such an HCA.
func (h *host) verifyAway(snap *rdma.Snapshot, hca *rdma.HCA, classes []cdi.NodeClass) error {
	now := rdma.Elsewhere(h.sys, []rdma.HCA{*hca})
	if len(now) == 0 || *now[0].Uverbs != *hca.Uverbs {
		return fmt.Errorf("%w: HCA %s has been moved again", rdma.ErrChanged, hca.IBDev)
	}
	return h.checkNodes(snap, hca, classes)
}

func (h *host) checkNodes(snap *rdma.Snapshot, hca *rdma.HCA, classes []cdi.NodeClass) error {
	nodes, err := cdi.SelectNodes(hca, snap.RDMACM, classes)
	for _, n := range nodes {
		err = errors.Join(err, h.checkNode(n))
	}
	return err
}

// checkNode looks at a device node on the host. The runtime would fail on a
// missing one with less to say.
func (h *host) checkNode(n rdma.Node) error {
	path := filepath.Join(h.root, n.Path())
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("look at node %s of the host: %w; is /dev a devtmpfs, and mounted into the driver's pod?", n.Path(), err)
	}
	major, minor := unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || major != n.Major || minor != n.Minor {
		return fmt.Errorf("node %s of the host is not character device %d:%d, which the kernel has under this name: remove it and let udev make it anew", n.Path(), n.Major, n.Minor)
	}
	return nil
}
