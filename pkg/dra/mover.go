package dra

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Mover moves RDMA devices between the host's network namespace and those of pods, on a
// host in exclusive mode (package rdmanetns).
type Mover interface {
	// Movable says why the kernel cannot move a device of the host, nil if it can.
	Movable(ibdev string) error
	// In moves a device of the host into the namespace of that path, unless it is
	// there already; it reports whether it moved it.
	In(ibdev, netns string) (moved bool, err error)
	// Out moves it back to the host. Of a namespace that has ended, or does not have
	// the device, it moves nothing.
	Out(ibdev, netns string) (moved bool, err error)
}

var (
	errExclusive = errors.New("this node is in exclusive RDMA network namespace mode, where a pod cannot open the host's RDMA devices: " +
		"let the driver move them (--move-devices, chart value network.moveDevices), or set \"options ib_core netns_mode=1\" in /etc/modprobe.d and reboot the node")
	errElsewhere = errors.New("it is still in the network namespace of another pod: it comes back when that pod's sandbox has gone")
)

// moves is what a host knows of moving its HCAs.
type moves struct {
	Mover // nil where nobody moves them

	mu     sync.Mutex
	judged map[string]error // by ibdev and driver: what Movable said
}

// movable says why an HCA cannot follow a pod, nil if it can. The kernel is asked once
// for each device and driver: the answer is in the driver's code.
func (m *moves) movable(h *rdma.HCA) error {
	if m.Mover == nil {
		return errExclusive
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := h.IBDev + " " + h.Driver
	err, known := m.judged[key]
	if !known {
		err = m.Movable(h.IBDev)
		if m.judged == nil {
			m.judged = map[string]error{}
		}
		m.judged[key] = err
	}
	return err
}

// addElsewhere adds to a snapshot the HCAs that are in the namespaces of pods. They count
// as there: what holds of them in general holds, and only their nodes change.
func (h *host) addElsewhere(snap *rdma.Snapshot) *rdma.Snapshot {
	if h.moves.Mover == nil || snap.NetnsMode != rdma.NetnsExclusive {
		h.away = nil
		return snap
	}
	var missing []rdma.HCA
	for name, hca := range h.seen {
		if snap.Lookup(name) == nil {
			missing = append(missing, *hca)
		}
	}
	moved := rdma.Elsewhere(h.sys, missing)
	h.away = map[string]bool{}
	for _, hca := range moved {
		h.away[hca.Name] = true
	}
	if len(moved) == 0 {
		return snap
	}
	snap = snap.With(moved...)
	if h.snap != nil && rdma.Compare(h.snap, snap).Empty() {
		return h.snap
	}
	return snap
}

// isAway reports whether an HCA was in another namespace at the last look.
func (h *host) isAway(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.away[name]
}

// admit says why the host cannot give the devices of a plan to a new claim. The mode is
// read now: the kernel announces no change of it, and the snapshot may be half a minute old.
func (h *host) admit(p *plan.Plan) error {
	if rdma.ReadNetnsMode(h.sys) != rdma.NetnsExclusive {
		return nil
	}
	if h.moves.Mover == nil {
		return fmt.Errorf("claim %s: %w", p.Claim(), errExclusive)
	}
	for _, name := range p.HCAs() {
		switch hca := h.snapshot().Lookup(name); {
		case hca == nil: // whoever makes the spec says so
		case h.isAway(name):
			return &plan.NotFoundError{Claim: p.Claim(), Device: name, Err: errElsewhere}
		default:
			if err := h.moves.movable(hca); err != nil {
				return fmt.Errorf("claim %s: device %s: %w", p.Claim(), name, err)
			}
		}
	}
	return nil
}

// FixedHCAs says of each HCA of a host in exclusive mode why a driver with that mover does not
// offer it, "" if it does; nil for a nil mover, and in shared mode.
func FixedHCAs(m Mover, snap *rdma.Snapshot) map[string]string {
	return (&host{moves: moves{Mover: m}}).fixedHCAs(snap)
}

// fixedHCAs says of each HCA why it cannot follow a pod, "" if it can; nil where
// nobody moves them or nothing has to be moved.
func (h *host) fixedHCAs(snap *rdma.Snapshot) map[string]string {
	if h.moves.Mover == nil || snap.NetnsMode != rdma.NetnsExclusive {
		return nil
	}
	out := map[string]string{}
	for _, hca := range snap.Usable() {
		out[hca.Name] = ""
		if h.isAway(hca.Name) {
			continue
		}
		if err := h.moves.movable(hca); err != nil {
			out[hca.Name] = err.Error()
		}
	}
	return out
}
