// Package attach attaches the network interfaces of claims to pods, and detaches them, also after a crash or a
// restart.
//
// Each interface of a pod has one record: a file. The driver writes the record before it changes anything, and removes
// it when all changes are undone. The record has the original state of the host's interface, and the requested address.
// So another process can undo the changes: after a restart, and for a sandbox that ended without an announcement. After
// a reboot of the node it releases the addresses, because the state of CNI plugins outlives the reboot.
//
// The changes themselves are made by [podnet]. They are idempotent, so a caller that is unsure repeats them.
//
// A pod with capabilities decides how long the kernel works in its namespace. During that, only its own pod waits.
//
// CNI plugins are called for an address before the interface is attached ([Attacher.Lease]), and after it was
// detached ([Attacher.Release]). A plugin may take long. During a call of a plugin only its own pod waits.
package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Pod is a pod with its own network namespace.
type Pod struct {
	UID types.UID `json:"uid"`
	// Name is "namespace/name". It is for messages.
	Name  string `json:"name"`
	Netns string `json:"netns"`
}

// Interface is a network interface that a pod should get.
type Interface struct {
	Claim *plan.Plan
	// Device is a device of the claim. It has a Network.
	Device plan.Device
	// Netdev is the name of the host's interface. PCI is the function that the interface must belong to, "" if it is
	// unknown.
	Netdev, PCI string
}

// Attacher attaches network interfaces to pods and detaches them. It is safe for concurrent use, also by two
// processes: during a rolling update two drivers handle the same pods. What one pod makes large keeps no other pod
// waiting.
type Attacher struct {
	host     *podnet.Host
	store    store
	detacher detacher
	leases   leases
}

// ErrAway means that the HCA has no network interface on the host now.
var ErrAway = errors.New("it has no network interface on the host now: another pod or a CNI plugin has it, or its driver has made none")

// New returns an attacher with its records in dir, which it creates. It removes the lock files of drivers that were
// killed.
func New(host *podnet.Host, ipam *podnet.IPAM, dir, bootID string) (*Attacher, error) {
	s, err := openStore(dir, bootID)
	if err == nil {
		err = s.sweepLocks()
	}
	back := detacher{host, s}
	return &Attacher{host, s, back, leases{host, ipam, s, back}}, err
}

// ended reports whether a network namespace has ended. If the directory of its path is missing too, ended returns
// false: this process may not see that directory.
func ended(netns string) bool {
	ns, err := rdmanetns.Open(netns)
	if err == nil {
		ns.Close()
	}
	if !errors.Is(err, rdmanetns.ErrEnded) {
		return false
	}
	_, err = os.Stat(filepath.Dir(netns))
	return err == nil
}

// Usable returns an error if the interface of the host cannot be attached to pods now, nil if it can. It looks at the
// host and at the interfaces that other pods have.
func (a *Attacher) Usable(i Interface) error {
	if i.Netdev == "" {
		return ErrAway
	}
	if _, err := a.host.Usable(i.Netdev, i.PCI, i.Device.Network.Mode, i.Device.VLAN); err != nil {
		return err
	}
	return a.Excluded(i)
}

// Excluded returns an error if the interfaces that other pods have exclude a usable one, nil if they do not.
func (a *Attacher) Excluded(i Interface) error {
	mode := i.Device.Network.Mode
	if mode == podnet.Move {
		return nil
	}
	parent, err := a.host.Inspect(i.Netdev, i.PCI, mode)
	if err != nil {
		return err
	}
	return a.store.others(&Record{}).checkMode(podnet.Want{Mode: mode, VLAN: i.Device.VLAN}, parent)
}

// Attach gives a pod an interface, and reports whether it attached it now. It is idempotent. An interface with IPAM
// needs a successful Lease before. After an error, the caller must detach the record that has no State.
func (a *Attacher) Attach(ctx context.Context, pod Pod, i Interface) (did bool, err error) {
	want := newRecord(a.store.bootID, pod, i)
	for cleared := false; ; cleared = true {
		did, err := a.attach(ctx, want, i, cleared)
		if !errors.Is(err, errNotClear) {
			return did, err
		}
		if err := a.clear(ctx, pod, &i); err != nil {
			return false, err
		}
	}
}

// attach attaches the interface of a record that may not exist yet, unless it returns errNotClear.
func (a *Attacher) attach(ctx context.Context, want *Record, i Interface, cleared bool) (did bool, err error) {
	release, err := a.store.lockRecord(ctx, want)
	if err != nil {
		return false, err
	}
	defer release()
	r, err := a.reserve(ctx, want, i, cleared)
	if err != nil {
		return false, err
	}
	did = r.State == nil
	err = a.finish(r, i.Device.Network)
	return err == nil && did, err
}

// errNotClear means that clear must be called first.
var errNotClear = errors.New("the interface of a sandbox that has ended must be taken back first")

// reserve writes the record of an interface, so that no other pod gets the interface or its addresses. It returns an
// error while another pod has them. cleared means that clear was called before. The caller holds the lock of the
// record.
func (a *Attacher) reserve(ctx context.Context, want *Record, i Interface, cleared bool) (*Record, error) {
	unlock, err := a.store.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if ended(want.Pod.Netns) {
		return nil, rdmanetns.ErrEnded
	}
	r, over, err := a.inTheWay(want.Pod, i)
	switch {
	case err != nil && len(over) == 0:
		return nil, err
	case slices.ContainsFunc(over, func(o Record) bool { return !cleared || o.blocks(want.Pod, i) }):
		return nil, errNotClear
	case err != nil:
		return nil, err
	case i.Device.Network.IPAM != "" && (r == nil || r.Detached || len(r.Leased) == 0):
		return nil, errNoAddress
	case r == nil:
		r = want
	}
	if !r.begun() {
		err = a.begin(r, i)
	}
	return r, err
}

// clear detaches what sandboxes that have ended have of an interface, also an earlier sandbox of the pod. It returns
// an error while the sandbox of another pod has the interface or its addresses. The caller holds no lock.
func (a *Attacher) clear(ctx context.Context, pod Pod, i *Interface) error {
	_, over, err := a.inTheWay(pod, *i)
	for _, r := range over {
		if failed := a.detachEnded(ctx, &r, i); failed != nil && r.blocks(pod, *i) {
			return failed
		}
	}
	return err
}

// inTheWay returns the record of a sandbox's interface, nil if there is none, and the records of others with the
// interface or its addresses that must be detached first. It returns an error for another pod's that must stay.
func (a *Attacher) inTheWay(pod Pod, i Interface) (had *Record, over []Record, err error) {
	records, err := a.store.recordsOf(i.Claim.UID, i.Device.Device)
	if err != nil {
		return nil, nil, err
	}
	moved, err := a.store.moved(devicename.Parse(i.Device.Device).HCA)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range append(records, moved...) {
		switch {
		case r.IsOf(i) && r.Pod == pod:
			had = &r
		case r.Pod.UID == pod.UID && r.Pod != pod, r.Pod.UID != pod.UID && r.Pod.Netns == pod.Netns, ended(r.Pod.Netns):
			over = append(over, r)
		case err != nil: // the first one is enough
		case r.Want.Mode == podnet.Move && r.begun():
			err = fmt.Errorf("network interface %q of the host is in pod %s (%s): it comes back "+
				"when that pod's sandbox is gone", r.Original.Name, r.Pod.Name, r.Pod.UID)
		case r.IsOf(i) && len(i.Device.Network.Addresses) > 0:
			err = fmt.Errorf("its addresses %s are in pod %s (%s), and one pod at a time can have them: "+
				"they are free when that pod's sandbox is gone; for several pods at once use ipam",
				listed(i.Device.Network.Addresses), r.Pod.Name, r.Pod.UID)
		}
	}
	return had, over, err
}

// blocks reports whether the record of an ended sandbox keeps a pod from getting an interface: it is that of an earlier
// sandbox of the pod, or it has the host's interface itself. A record with nothing but an address blocks no interface.
func (r *Record) blocks(pod Pod, i Interface) bool {
	onlyAddress := r.Detached || r.Lease != nil && !r.begun()
	return !onlyAddress && (r.IsOf(i) && r.Pod.UID == pod.UID || r.Want.Mode == podnet.Move)
}

func listed(addresses []netip.Prefix) string {
	return strings.Trim(fmt.Sprint(addresses), "[]")
}

// detachEnded detaches the interface of a sandbox that has ended. On success i has the name that the interface has on
// the host again. It also succeeds if the old interface no longer exists and its function has a new one.
func (a *Attacher) detachEnded(ctx context.Context, over *Record, i *Interface) error {
	release, err := a.store.lockRecord(ctx, over)
	if err != nil {
		return err
	}
	defer release()
	r, err := a.store.current(over)
	if err != nil || r == nil { // nil: another caller was faster
		return err
	}
	err = a.detacher.detach(ctx, r, false)
	switch {
	case r.Want.Mode != podnet.Move || !r.begun():
	case err == nil:
		i.Netdev = r.Original.Name
	case errors.Is(err, podnet.ErrNotBack) && i.Netdev != "" && a.Usable(*i) == nil:
		return a.detacher.markDetached(r)
	}
	return err
}

// begin records the state of the host's interface and the addresses of the claim, before anything is changed. It
// returns an error if another pod or the host uses one of the addresses. The caller holds both locks.
func (a *Attacher) begin(r *Record, i Interface) error {
	if i.Netdev == "" {
		return ErrAway
	}
	original, err := a.host.Inspect(i.Netdev, i.PCI, r.Want.Mode)
	if err != nil {
		return err
	}
	addresses := slices.Concat(i.Device.Network.Addresses, r.Leased)
	others := a.store.others(r)
	if err = others.checkAddresses(addresses); err == nil {
		err = others.checkMode(r.Want, original)
	}
	if err == nil {
		err = a.host.Free(addresses, original, r.Want.Mode)
	}
	if err != nil {
		return err
	}
	r.Original, r.Addresses = original, i.Device.Network.Addresses
	return a.store.put(r)
}

// finish attaches the interface of a record to its pod, and records the result. It is idempotent. The caller holds the
// lock of the record alone.
func (a *Attacher) finish(r *Record, n *plan.Network) error {
	w := r.Want
	w.MTU, w.Addresses = n.MTU, slices.Concat(n.Addresses, r.Leased)
	if w.Gateways = n.Gateways; w.Gateways == nil {
		w.Gateways = r.LeasedGateways
	}
	for _, route := range n.Routes {
		w.Routes = append(w.Routes, podnet.Route{Destination: route.Destination, Gateway: route.Gateway})
	}
	w.Routes = append(w.Routes, r.LeasedRoutes...)
	state, err := a.host.Attach(r.Pod.Netns, r.Original, w)
	if err != nil {
		return err
	}
	r.State = &state
	return a.store.put(r)
}

// Detach takes the interface of a record out of its pod, which has ended. It is idempotent. The address of an IPAM
// stays for [Attacher.Release]. No other pod gets this address while the pod may have the interface.
func (a *Attacher) Detach(ctx context.Context, r Record) error { return a.detach(ctx, r, false) }

// DetachRunning is Detach for a pod that goes on, such as one that waits for another interface.
func (a *Attacher) DetachRunning(ctx context.Context, r Record) error { return a.detach(ctx, r, true) }

func (a *Attacher) detach(ctx context.Context, r Record, stays bool) error {
	release, err := a.store.lockRecord(ctx, &r)
	if err != nil {
		return err
	}
	defer release()
	now, err := a.store.current(&r)
	if err != nil || now == nil { // nil: another caller was faster
		return err
	}
	return a.detacher.detach(ctx, now, stays)
}

// Of returns the records of a pod's sandbox. If the network namespace is unknown, it returns the records of all
// sandboxes of the pod that have ended.
func (a *Attacher) Of(pod Pod) ([]Record, error) {
	return a.store.all(every, func(r *Record) bool {
		return r.Pod.UID == pod.UID && (r.Pod.Netns == pod.Netns || pod.Netns == "" && ended(r.Pod.Netns))
	})
}

// Sweep removes temporary files of killed drivers from the records. It keeps young ones, which another driver may be
// writing during a rolling update.
func (a *Attacher) Sweep() error { return atomicfile.Sweep(a.store.dir, atomicfile.Stale) }

// Over returns the records of sandboxes that have ended, and of addresses that must still be released.
func (a *Attacher) Over() ([]Record, error) {
	return a.store.all(every, func(r *Record) bool {
		return r.Detached || !r.thisBoot(a.store.bootID) || ended(r.Pod.Netns)
	})
}

// State returns the state of the interface of a claim's device in a pod, nil if no pod has it. If several pods have
// one, State returns that of any of them.
func (a *Attacher) State(claim types.UID, device string) *podnet.State {
	return a.stateIn(claim, device, func(Pod) bool { return true })
}

// StateIn returns the state of the interface of a claim's device in one pod, nil if the pod does not have it.
func (a *Attacher) StateIn(pod Pod, claim types.UID, device string) *podnet.State {
	return a.stateIn(claim, device, func(p Pod) bool { return p == pod })
}

func (a *Attacher) stateIn(claim types.UID, device string, in func(Pod) bool) *podnet.State {
	if r := a.recordIn(claim, device, in); r != nil {
		return r.State
	}
	return nil
}

// recordIn returns the record of an interface that a pod has, nil if no pod has it.
func (a *Attacher) recordIn(claim types.UID, device string, in func(Pod) bool) *Record {
	records, _ := a.store.recordsOf(claim, device) // Over reports unreadable records
	for i, r := range records {
		if r.State != nil && r.thisBoot(a.store.bootID) && in(r.Pod) {
			return &records[i]
		}
	}
	return nil
}

// Lacks has a sentence for each thing that an interface in a pod lacks, although the pod can use it; "" for nothing.
type Lacks struct {
	LowMTU   string // why RDMA connections have smaller packets than the HCA can send
	OpenIPv6 string // why routers on the fabric can give the interface addresses and routes
}

// LacksOf returns what the interface lacks that a pod has by a claim's device. A moved interface sets the MTU of its
// HCA.
func (a *Attacher) LacksOf(pod Pod, claim types.UID, device string) (l Lacks) {
	r := a.recordIn(claim, device, func(p Pod) bool { return p == pod })
	if r == nil {
		return l
	}
	if r.Want.Mode != podnet.Move {
		l.LowMTU = podnet.LowMTU(r.State.Name, r.State.MTU, r.Original.MTU)
	}
	if r.State.IPv6 != "" {
		l.OpenIPv6 = fmt.Sprintf("routers on the fabric can give network interface %s addresses and routes: %s",
			r.State.Name, r.State.IPv6)
	}
	return l
}
