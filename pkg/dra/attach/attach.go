// Package attach gives pods the network interfaces of their claims, and takes them back
// whatever happened in between.
//
// For each interface of a pod there is one record, a file that is written before anything is
// done and removed when all is undone. It says what the host's interface was like and which
// address was asked for, so that another process can undo it: after a restart, for a sandbox
// that ended while nobody looked, and, as far as addresses go, after a reboot of the node,
// which CNI plugins' state outlives.
//
// What is done is done in [podnet], twice as well as once. So whoever is not sure does it again.
//
// A CNI plugin is asked for an address before ([Attacher.Lease]) and after ([Attacher.GiveBack]), as it may take
// long: meanwhile nobody waits but its own pod.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Pod is a pod with a network of its own.
type Pod struct {
	UID types.UID `json:"uid"`
	// Name is "namespace/name", for messages.
	Name  string `json:"name"`
	Netns string `json:"netns"`
}

// Interface is what a pod is to have.
type Interface struct {
	Claim *plan.Plan
	// Device is one of the claim's, with a network.
	Device plan.Device
	// Netdev is the host's interface, and PCI the function that it has to be of, "" if that is
	// not known.
	Netdev, PCI string
}

// Attacher attaches interfaces. All attachers of a directory take turns: during a rolling update two
// drivers hear of the same pods.
type Attacher struct {
	host   *podnet.Host
	ipam   *podnet.IPAM
	store  store
	isOver func(netns string) bool
}

// ErrAway says that an HCA has no interface that a pod could have.
var ErrAway = errors.New("it has no network interface on the host now: another pod or a CNI plugin has it, or its driver has made none")

// New makes an attacher with its records in a directory.
func New(host *podnet.Host, ipam *podnet.IPAM, dir, bootID string) (*Attacher, error) {
	s, err := openStore(dir, bootID)
	if err == nil {
		err = s.sweepLocks()
	}
	return &Attacher{host: host, ipam: ipam, store: s, isOver: ended}, err
}

// ended reports whether a network namespace is gone. Where even the directory of its name is not there,
// it may be that this process does not see it.
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

// Usable says why an interface of the host cannot be attached to pods.
func (a *Attacher) Usable(i Interface) error {
	return a.host.Usable(i.Netdev, i.PCI, i.Device.Network.Mode)
}

// Attach gives a pod an interface, and reports whether it had to be done. One with IPAM has its Lease. After an error the
// caller takes back what the pod has of it: a record without a State.
func (a *Attacher) Attach(ctx context.Context, pod Pod, i Interface) (did bool, err error) {
	unlock, err := a.store.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if a.isOver(pod.Netns) {
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
		r = a.record(pod, i)
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

// clear makes way for an interface: what an earlier sandbox of the pod had is taken back, and what
// is still in the sandbox of another pod is waited for. It returns the record of this one, nil if there is none.
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
		case r.Pod.UID == pod.UID && r.Pod != pod, r.Pod.UID != pod.UID && r.Pod.Netns == pod.Netns, a.isOver(r.Pod.Netns):
			if err := a.makeWay(&r, i); err != nil && (mine || r.Want.Mode == podnet.Move && !r.Returned) {
				return nil, err
			}
		case r.Want.Mode == podnet.Move && r.begun():
			return nil, fmt.Errorf("network interface %q of the host is in pod %s (%s): it comes back when that pod's sandbox has gone", r.Original.Name, r.Pod.Name, r.Pod.UID)
		case r.IsOf(*i) && len(i.Device.Network.Addresses) > 0:
			return nil, fmt.Errorf("its addresses %s are in pod %s (%s), and are of one pod at a time: they are free when that pod's sandbox has gone; for several pods at once use ipam",
				listed(i.Device.Network.Addresses), r.Pod.Name, r.Pod.UID)
		}
	}
	return had, nil
}

func listed(addresses []netip.Prefix) string {
	return strings.Trim(fmt.Sprint(addresses), "[]")
}

// makeWay takes back what a sandbox had that is over. The interface has its name again then, or it is
// no more: its function has another one by now.
func (a *Attacher) makeWay(r *Record, i *Interface) error {
	err := a.bringBack(r)
	switch {
	case r.Want.Mode != podnet.Move || !r.begun():
	case err == nil:
		i.Netdev = r.Original.Name
	case errors.Is(err, podnet.ErrNotBack) && i.Netdev != "" && a.Usable(*i) == nil:
		return a.returned(r)
	}
	return err
}

// record is what is known of an interface before anything is done.
func (a *Attacher) record(pod Pod, i Interface) *Record {
	n := i.Device.Network
	r := &Record{
		BootID: a.store.bootID, Claim: i.Claim.UID, ClaimName: i.Claim.Claim(), Device: i.Device.Device, Pod: pod,
		Want: podnet.Want{Mode: n.Mode, Name: n.Interface, Alias: i.Claim.InterfaceAlias(i.Device)},
	}
	if n.IPAM != "" {
		r.Lease = &podnet.Lease{Network: n.IPAM, Config: n.IPAMConfig, Container: r.id(), Netns: pod.Netns, Interface: n.Interface}
	}
	return r
}

// begin writes down what is going to be done, and what the host's interface is like.
func (a *Attacher) begin(r *Record, i Interface) error {
	if i.Netdev == "" {
		return ErrAway
	}
	original, err := a.host.Inspect(i.Netdev, i.PCI, r.Want.Mode)
	if err != nil {
		return err
	}
	addresses := slices.Concat(i.Device.Network.Addresses, r.Given)
	if err = a.othersHave(r, addresses); err == nil {
		err = a.host.Free(addresses, original, r.Want.Mode)
	}
	if err != nil {
		return err
	}
	r.Original, r.Addresses = original, i.Device.Network.Addresses
	return a.store.put(r)
}

// finish does what a record says.
func (a *Attacher) finish(r *Record, n *plan.Network) error {
	w := r.Want
	w.MTU, w.Addresses = n.MTU, slices.Concat(n.Addresses, r.Given)
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

// Detach undoes what a record says, all of it that can be, and removes the record if nothing is
// left to do.
func (a *Attacher) Detach(ctx context.Context, r Record) error {
	err := a.TakeBack(ctx, r)
	if r.Lease != nil {
		err = errors.Join(err, a.GiveBack(ctx, r))
	}
	return err
}

// TakeBack takes the interface of a record out of its pod. An address of IPAM is left to [Attacher.GiveBack]; nobody else gets it
// as long as the pod may have the interface.
func (a *Attacher) TakeBack(ctx context.Context, r Record) error {
	unlock, err := a.store.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := readRecord(a.store.path(&r))
	if errors.Is(err, fs.ErrNotExist) || err == nil && now.Pod != r.Pod {
		return nil // somebody else was first, and it may be another sandbox's by now
	}
	if err != nil {
		return unreadable(a.store.path(&r), err)
	}
	return a.bringBack(&now)
}

// bringBack gives the host its interface, and keeps the record if an address is left to give back.
func (a *Attacher) bringBack(r *Record) error {
	if r.Returned || r.Lease != nil && !r.begun() {
		return nil
	}
	var err error
	if r.begun() && r.thisBoot(a.store.bootID) {
		err = a.host.Detach(r.Pod.Netns, r.Original, r.Want)
	}
	if err != nil {
		return fmt.Errorf("claim %s, pod %s: %w", r.ClaimName, r.Pod.Name, err)
	}
	return a.returned(r)
}

// returned records that the interface can be had again, whatever becomes of its address.
func (a *Attacher) returned(r *Record) error {
	if r.Lease == nil {
		return a.store.remove(r)
	}
	r.Returned = true
	return a.store.put(r)
}

// Of returns the records of a pod's sandbox; of a namespace that is not known those of all of the
// pod's sandboxes that ended.
func (a *Attacher) Of(pod Pod) ([]Record, error) {
	return a.store.all(every, func(r *Record) bool {
		return r.Pod.UID == pod.UID && (r.Pod.Netns == pod.Netns || pod.Netns == "" && a.isOver(r.Pod.Netns))
	})
}

// Over returns the records of sandboxes that ended while nobody looked, and of addresses that are to be given back.
func (a *Attacher) Over() ([]Record, error) {
	return a.store.all(every, func(r *Record) bool {
		return r.Returned || !r.thisBoot(a.store.bootID) || a.isOver(r.Pod.Netns)
	})
}

// State returns what the interface of a claim's device is like in its pod, nil if no pod has it.
func (a *Attacher) State(claim types.UID, device string) *podnet.State {
	records, _ := a.store.of(claim, device) // what cannot be read is reported by others
	for _, r := range records {
		if r.State != nil && r.thisBoot(a.store.bootID) {
			return r.State
		}
	}
	return nil
}
