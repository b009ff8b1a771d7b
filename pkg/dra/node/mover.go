package node

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Mover moves RDMA devices between the host's network namespace and those of pods, on a host in exclusive mode
// (package rdmanetns).
type Mover interface {
	// Movable says why the kernel cannot move a device of the host, nil if it can.
	Movable(ibdev string) error
	// In moves a device of the host into the namespace of that path, unless it is there already. It reports whether
	// it moved it.
	In(ibdev, netns string) (moved bool, err error)
	// Out moves it back to the host. If the namespace has ended or does not have the device, it moves nothing.
	Out(ibdev, netns string) (moved bool, err error)
}

var (
	// ErrExclusive says that pods cannot open the RDMA devices of this host.
	ErrExclusive = errors.New("this node is in exclusive RDMA network namespace mode, where a pod cannot open the host's RDMA devices: " +
		"let the driver move them (--move-devices, chart value network.moveDevices), or set \"options ib_core netns_mode=1\" in /etc/modprobe.d and reboot the node")
	errElsewhere = errors.New("it is still in the network namespace of another pod: it comes back when that pod's sandbox has gone")
)

// movable asks a mover which HCAs it can move.
type movable struct {
	Mover // nil where nobody moves them

	mu       sync.Mutex
	verdicts map[string]error // of Movable, by ibdev and driver
}

// can says why an HCA cannot follow a pod, nil if it can. The kernel is asked once for each device and driver: the
// answer is in the driver's code.
func (m *movable) can(h *rdma.HCA) error {
	if m.Mover == nil {
		return ErrExclusive
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := h.IBDev + " " + h.Driver
	err, known := m.verdicts[key]
	if !known {
		err = m.Movable(h.IBDev)
		if m.verdicts == nil {
			m.verdicts = map[string]error{}
		}
		m.verdicts[key] = err
	}
	return err
}

// moves reports whether HCAs of a host in that state move into pods.
func (m *movable) moves(snap *rdma.Snapshot) bool {
	return m.Mover != nil && snap.NetnsMode == rdma.NetnsExclusive
}

// fixed says of each HCA that is on the host why it cannot follow a pod, "" if it can or if it is in one.
func (m *movable) fixed(snap *rdma.Snapshot, inPod func(name string) bool) map[string]string {
	if !m.moves(snap) {
		return nil
	}
	out := map[string]string{}
	for _, hca := range snap.Usable() {
		out[hca.Name] = ""
		if inPod(hca.Name) {
			continue
		}
		if err := m.can(hca); err != nil {
			out[hca.Name] = err.Error()
		}
	}
	return out
}

// FixedHCAs says of each HCA of a host in exclusive mode why a driver with that mover does not offer it, "" if it does.
// It returns nil for a nil mover, and in shared mode.
func FixedHCAs(m Mover, snap *rdma.Snapshot) map[string]string {
	return (&movable{Mover: m}).fixed(snap, func(string) bool { return false })
}

// Fixed says of each HCA why it cannot follow a pod, "" if it can. It returns nil where HCAs do not move. The snapshot
// is the host's, perhaps with HCAs that are missing there.
func (n *Node) Fixed(host *Host, snap *rdma.Snapshot) map[string]string {
	return n.fixed(snap, host.InPod)
}

// Moves reports whether HCAs move into pods on this host. The mode is read now: the kernel announces no change of it.
func (n *Node) Moves() bool {
	return n.Mover != nil && rdma.ReadNetnsMode(n.sys) == rdma.NetnsExclusive
}

// Admit says why the host cannot give the devices of a plan to a new claim. The mode is read now, as in Moves.
func (n *Node) Admit(host *Host, p *plan.Plan) error {
	if rdma.ReadNetnsMode(n.sys) != rdma.NetnsExclusive {
		return nil
	}
	if n.Mover == nil {
		return fmt.Errorf("claim %s: %w", p.Claim(), ErrExclusive)
	}
	for _, name := range p.HCAs() {
		switch hca := host.Lookup(name); {
		case hca == nil: // making the spec returns the error
		case host.InPod(name): // the pod may be about to return it
			return Unsettled(&plan.NotFoundError{Claim: p.Claim(), Device: name, Err: errElsewhere})
		default:
			if err := n.can(hca); err != nil {
				return fmt.Errorf("claim %s: device %s: %w", p.Claim(), name, err)
			}
		}
	}
	return nil
}
