package node

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Mover moves RDMA devices between the host's network namespace and the namespaces of pods, on a host in exclusive mode
// (package rdmanetns).
type Mover interface {
	// Movable returns nil if the kernel can move a device of the host, and an error with rdmanetns.ErrFixed if it cannot.
	// The error has rdmanetns.ErrAbsent if the host does not have the device now.
	Movable(ibdev string) error
	// In moves a device of the host into the namespace of a path, and reports whether it moved it. It is idempotent.
	In(ibdev, netns string) (moved bool, err error)
	// Out moves a device back to the host, and reports whether it moved it. It is idempotent: it does nothing if the
	// namespace has ended or does not have the device.
	Out(ibdev, netns string) (moved bool, err error)
}

var (
	// ErrExclusive means that pods cannot open the RDMA devices of this host.
	ErrExclusive = errors.New("this node is in exclusive RDMA network namespace mode, " +
		"where a pod cannot open the host's RDMA devices: " +
		"let the driver move them (--move-devices, chart value network.enabled), " +
		"or set \"options ib_core netns_mode=1\" in /etc/modprobe.d and reboot the node")
	errElsewhere = errors.New("it is still in the network namespace of another pod: " +
		"it comes back when that pod's sandbox is gone")
)

// Moves knows which HCAs move into pods, and moves them in and out. It is safe for concurrent use.
type Moves struct {
	mover Mover // nil if the driver moves none
	sys   fs.ReadLinkFS

	// scan is held while the host is read, so that no older Host replaces a newer one. It is also held while a device
	// moves: meanwhile the device is neither on the host nor in a pod, and three such readings in a minute are a fault.
	scan sync.Mutex

	mu       sync.Mutex
	verdicts map[string]error // of Movable, by ibdev and driver; without failures to ask

	askAgain atomic.Bool // the kernel has not answered for an HCA: ask again

	counts map[string]uint64 // how often an ibdev or its interface began or ended to move
}

// Moving notes that an RDMA device, or its interface, begins to move into a pod or back. The caller must call done
// afterwards. The link falls meanwhile, which is no fault.
func (m *Moves) Moving(ibdev string) (done func()) {
	note := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.counts == nil {
			m.counts = map[string]uint64{}
		}
		m.counts[ibdev]++
	}
	note()
	return note
}

// count returns a number that changes with each move of a device or its interface.
func (m *Moves) count(ibdev string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[ibdev]
}

// In moves a device into the namespace of a pod; see [Mover].
func (m *Moves) In(ibdev, netns string) (moved bool, err error) {
	m.scan.Lock()
	defer m.scan.Unlock()
	defer m.Moving(ibdev)()
	return m.mover.In(ibdev, netns)
}

// Out moves a device back to the host; see [Mover].
func (m *Moves) Out(ibdev, netns string) (moved bool, err error) {
	m.scan.Lock()
	defer m.scan.Unlock()
	defer m.Moving(ibdev)()
	return m.mover.Out(ibdev, netns)
}

// can returns the reason why an HCA cannot move into a pod, nil if it can. The error has rdmanetns.ErrAbsent if the HCA
// is in a pod, or moves just now. can keeps the kernel's answers, because they depend only on the code of the HCA's
// driver. It keeps no failure to ask.
func (m *Moves) can(host *Host, h *rdma.HCA) error {
	if host.InPod(h.Name) {
		return rdmanetns.ErrAbsent
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := h.IBDev + " " + h.Driver
	err, known := m.verdicts[key]
	if !known {
		err = m.mover.Movable(h.IBDev)
		if err != nil && !errors.Is(err, rdmanetns.ErrFixed) {
			m.askAgain.Store(true)
			return err
		}
		if m.verdicts == nil {
			m.verdicts = map[string]error{}
		}
		m.verdicts[key] = err
	}
	return err
}

// applyTo reports whether HCAs move into pods on a host with this snapshot.
func (m *Moves) applyTo(snap *rdma.Snapshot) bool {
	return m.mover != nil && snap.NetnsMode == rdma.NetnsExclusive
}

// Fixed returns, for each HCA, the reason why it cannot move into a pod. The reason is "" if the HCA can move, is in a
// pod already, or moves just now. Fixed returns nil if HCAs do not move. The snapshot is the host's, perhaps with HCAs
// that are missing there.
func (m *Moves) Fixed(host *Host, snap *rdma.Snapshot) map[string]string {
	if !m.applyTo(snap) {
		return nil
	}
	out := map[string]string{}
	for _, hca := range snap.Usable() {
		out[hca.Name] = ""
		if err := m.can(host, hca); err != nil && !errors.Is(err, rdmanetns.ErrAbsent) {
			out[hca.Name] = err.Error()
		}
	}
	return out
}

// FixedHCAs returns, for each HCA of a host in exclusive mode, the reason why a driver with this mover does not offer
// it, "" if it does. It returns nil for a nil mover, and in shared mode.
func FixedHCAs(m Mover, snap *rdma.Snapshot) map[string]string {
	return (&Moves{mover: m}).Fixed(&Host{}, snap)
}

// Possible reports whether HCAs move into pods on this host. It reads the mode at each call, because the kernel
// announces no change of it.
func (m *Moves) Possible() bool {
	return m.mover != nil && rdma.ReadNetnsMode(m.sys) == rdma.NetnsExclusive
}

// Admit returns the reason why the host cannot give the devices of a plan to a new claim, nil if it can. It reads the
// mode at each call, like Possible.
func (m *Moves) Admit(host *Host, p *plan.Plan) error {
	if rdma.ReadNetnsMode(m.sys) != rdma.NetnsExclusive {
		return nil
	}
	if m.mover == nil {
		return fmt.Errorf("claim %s: %w", p.Claim(), ErrExclusive)
	}
	for _, name := range p.HCAs() {
		hca := host.Lookup(name)
		if hca == nil { // making the spec returns the error
			continue
		}
		switch err := m.can(host, hca); {
		case errors.Is(err, rdmanetns.ErrAbsent): // the pod may be about to return it
			return Unsettled(&plan.NotFoundError{Claim: p.Claim(), Device: name, Err: errElsewhere})
		case err != nil:
			return fmt.Errorf("claim %s: device %s: %w", p.Claim(), name, err)
		}
	}
	return nil
}
