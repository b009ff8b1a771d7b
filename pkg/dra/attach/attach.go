// Package attach gives pods the network interfaces of their claims, and takes them back, also after a crash or a
// restart.
//
// Each interface of a pod has one record: a file. The driver writes the record before it changes anything, and removes
// it when all changes are undone. The record has the original state of the host's interface, and the requested address.
// So another process can undo the changes: after a restart, and for a sandbox that ended without an announcement. After
// a reboot of the node it gives back the addresses, because the state of CNI plugins outlives the reboot.
//
// The changes themselves are made by [podnet]. They are idempotent, so a caller that is unsure repeats them.
//
// CNI plugins are called for an address before the interface is attached ([Attacher.Lease]), and after it was taken
// back ([Attacher.GiveBack]). A plugin may take long. During a call of a plugin only its own pod waits.
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

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
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

// Attacher attaches network interfaces to pods and takes them back. It is safe for concurrent use: a lock on the
// directory excludes other callers and other processes. During a rolling update two drivers handle the same pods.
type Attacher struct {
	host     *podnet.Host
	store    store
	returner returner
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
	back := returner{host, s}
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
// needs a successful Lease before. After an error, the caller must take back the record that has no State.
func (a *Attacher) Attach(ctx context.Context, pod Pod, i Interface) (did bool, err error) {
	unlock, err := a.store.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if ended(pod.Netns) {
		return false, rdmanetns.ErrEnded
	}
	r, err := a.clear(ctx, pod, &i)
	if err != nil {
		return false, err
	}
	if i.Device.Network.IPAM != "" && (r == nil || r.Returned || len(r.Given) == 0) {
		return false, errNoAddress
	}
	if r == nil {
		r = newRecord(a.store.bootID, pod, i)
	}
	if !r.begun() {
		err = a.begin(r, i)
	}
	did = r.State == nil
	if err == nil {
		err = a.finish(r, i.Device.Network)
	}
	return err == nil && did, err
}

// clear prepares for the attachment of an interface. It takes back what an earlier sandbox of the pod has of it. It
// returns an error while the sandbox of another pod has the interface or its addresses. Otherwise it returns the record
// of this sandbox, nil if there is none.
func (a *Attacher) clear(ctx context.Context, pod Pod, i *Interface) (had *Record, err error) {
	records, err := a.store.of(i.Claim.UID, i.Device.Device)
	if err != nil {
		return nil, err
	}
	moved, err := a.store.moved(devicename.Parse(i.Device.Device).HCA)
	if err != nil {
		return nil, err
	}
	for _, r := range append(records, moved...) {
		mine := r.IsOf(*i) && r.Pod.UID == pod.UID
		switch {
		case mine && r.Pod == pod:
			had = &r
		case r.Pod.UID == pod.UID && r.Pod != pod, r.Pod.UID != pod.UID && r.Pod.Netns == pod.Netns, ended(r.Pod.Netns):
			if err := a.makeWay(&r, i); err != nil && (mine || r.Want.Mode == podnet.Move && !r.Returned) {
				return nil, err
			}
		case r.Want.Mode == podnet.Move && r.begun():
			return nil, fmt.Errorf("network interface %q of the host is in pod %s (%s): it comes back "+
				"when that pod's sandbox is gone", r.Original.Name, r.Pod.Name, r.Pod.UID)
		case r.IsOf(*i) && len(i.Device.Network.Addresses) > 0:
			return nil, fmt.Errorf("its addresses %s are in pod %s (%s), and one pod at a time can have them: "+
				"they are free when that pod's sandbox is gone; for several pods at once use ipam",
				listed(i.Device.Network.Addresses), r.Pod.Name, r.Pod.UID)
		}
	}
	return had, nil
}

func listed(addresses []netip.Prefix) string {
	return strings.Trim(fmt.Sprint(addresses), "[]")
}

// makeWay takes back the interface of a sandbox that has ended. On success i has the name that the interface has on the
// host again. It also succeeds if the old interface no longer exists and its function has a new one.
func (a *Attacher) makeWay(r *Record, i *Interface) error {
	err := a.returner.bringBack(r)
	switch {
	case r.Want.Mode != podnet.Move || !r.begun():
	case err == nil:
		i.Netdev = r.Original.Name
	case errors.Is(err, podnet.ErrNotBack) && i.Netdev != "" && a.Usable(*i) == nil:
		return a.returner.returned(r)
	}
	return err
}

// begin records the state of the host's interface and the addresses of the claim, before anything is changed. It
// returns an error if another pod or the host uses one of the addresses.
func (a *Attacher) begin(r *Record, i Interface) error {
	if i.Netdev == "" {
		return ErrAway
	}
	original, err := a.host.Inspect(i.Netdev, i.PCI, r.Want.Mode)
	if err != nil {
		return err
	}
	addresses := slices.Concat(i.Device.Network.Addresses, r.Given)
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

// finish attaches the interface of a record to its pod, and records the result. It is idempotent.
func (a *Attacher) finish(r *Record, n *plan.Network) error {
	w := r.Want
	w.MTU, w.Addresses = n.MTU, slices.Concat(n.Addresses, r.Given)
	if w.Gateways = n.Gateways; w.Gateways == nil {
		w.Gateways = r.GivenGateways
	}
	for _, route := range n.Routes {
		w.Routes = append(w.Routes, podnet.Route{Destination: route.Destination, Gateway: route.Gateway})
	}
	w.Routes = append(w.Routes, r.GivenRoutes...)
	state, err := a.host.Attach(r.Pod.Netns, r.Original, w)
	if err != nil {
		return err
	}
	r.State = &state
	return a.store.put(r)
}

// Detach takes back the interface of a record and gives back its address. It continues after an error. It removes the
// record once nothing is left to undo.
func (a *Attacher) Detach(ctx context.Context, r Record) error {
	err := a.TakeBack(ctx, r)
	if r.Lease != nil {
		err = errors.Join(err, a.GiveBack(ctx, r))
	}
	return err
}

// TakeBack takes the interface of a record out of its pod. It is idempotent. The address of an IPAM stays for
// [Attacher.GiveBack]. No other pod gets this address while the pod may have the interface.
func (a *Attacher) TakeBack(ctx context.Context, r Record) error {
	unlock, err := a.store.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := a.store.current(&r)
	if err != nil || now == nil { // nil: another caller was faster
		return err
	}
	return a.returner.bringBack(now)
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

// Over returns the records of sandboxes that have ended, and of addresses that must still be given back.
func (a *Attacher) Over() ([]Record, error) {
	return a.store.all(every, func(r *Record) bool {
		return r.Returned || !r.thisBoot(a.store.bootID) || ended(r.Pod.Netns)
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
	records, _ := a.store.of(claim, device) // Over reports unreadable records
	for i, r := range records {
		if r.State != nil && r.thisBoot(a.store.bootID) && in(r.Pod) {
			return &records[i]
		}
	}
	return nil
}
