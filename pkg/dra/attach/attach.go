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
package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
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

// Attacher attaches interfaces. Its callers take turns.
type Attacher struct {
	host   *podnet.Host
	ipam   *podnet.IPAM
	store  store
	isOver func(netns string) bool
}

// New makes an attacher with its records in a directory.
func New(host *podnet.Host, ipam *podnet.IPAM, dir, bootID string) (*Attacher, error) {
	s, err := openStore(dir, bootID)
	return &Attacher{host: host, ipam: ipam, store: s, isOver: ended}, err
}

// ended reports whether a network namespace is gone.
func ended(netns string) bool {
	ns, err := rdmanetns.Open(netns)
	if err == nil {
		ns.Close()
	}
	return errors.Is(err, fs.ErrNotExist)
}

// Usable says why an interface of the host cannot be attached to pods.
func (a *Attacher) Usable(i Interface) error {
	return a.host.Usable(i.Netdev, i.PCI, i.Device.Network.Mode)
}

// Attach gives a pod an interface, and reports whether it had to be done. On an error nothing
// of it is left, unless the pod had it before.
func (a *Attacher) Attach(ctx context.Context, pod Pod, i Interface) (did bool, err error) {
	had, err := a.clear(ctx, pod, i)
	if err != nil {
		return false, err
	}
	r := had
	if r == nil {
		if r, err = a.begin(pod, i); err != nil {
			return false, err
		}
	}
	if err := a.finish(ctx, r, i.Device.Network); err != nil {
		if r.State == nil {
			err = errors.Join(err, a.Detach(context.WithoutCancel(ctx), *r))
		}
		return false, err
	}
	return had == nil, nil
}

// clear makes way for an interface: what an earlier sandbox of the pod had is taken back. It
// returns the record of this one, nil if there is none.
func (a *Attacher) clear(ctx context.Context, pod Pod, i Interface) (had *Record, err error) {
	records, err := a.store.of(i.Claim.UID, i.Device.Device)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		switch {
		case r.Pod == pod:
			had = &r
		case r.Pod.UID == pod.UID || a.isOver(r.Pod.Netns):
			if err := a.Detach(ctx, r); err != nil {
				return nil, err
			}
		case r.Want.Mode == podnet.Move:
			return nil, fmt.Errorf("network interface %q of the host is in pod %s (%s): it comes back when that pod's sandbox has gone", r.Original.Name, r.Pod.Name, r.Pod.UID)
		}
	}
	return had, nil
}

// begin writes down what is going to be done.
func (a *Attacher) begin(pod Pod, i Interface) (*Record, error) {
	n := i.Device.Network
	original, err := a.host.Inspect(i.Netdev, i.PCI, n.Mode)
	if err != nil {
		return nil, err
	}
	r := &Record{
		Claim: i.Claim.UID, ClaimName: i.Claim.Claim(), Device: i.Device.Device, Pod: pod, Original: original,
		Want: podnet.Want{Mode: n.Mode, Name: n.Interface, Alias: i.Claim.InterfaceAlias(i.Device)},
	}
	if n.IPAM != "" {
		r.Lease = &podnet.Lease{Network: n.IPAM, Config: n.IPAMConfig, Container: r.id(), Netns: pod.Netns, Interface: n.Interface}
	}
	return r, a.store.put(r)
}

// finish does what a record says.
func (a *Attacher) finish(ctx context.Context, r *Record, n *plan.Network) error {
	w := r.Want
	w.MTU, w.Addresses = n.MTU, n.Addresses
	for _, route := range n.Routes {
		w.Routes = append(w.Routes, podnet.Route{Destination: route.Destination, Gateway: route.Gateway})
	}
	if r.Lease != nil && len(r.Given) == 0 {
		given, routes, err := a.ipam.Add(ctx, *r.Lease)
		if err != nil {
			return err
		}
		r.Given, r.GivenRoutes = given, routes
	}
	w.Addresses = append(w.Addresses[:len(w.Addresses):len(w.Addresses)], r.Given...)
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
	var errs []error
	if r.thisBoot(a.store.bootID) {
		errs = append(errs, a.host.Detach(r.Pod.Netns, r.Original, r.Want))
	}
	if r.Lease != nil {
		errs = append(errs, a.ipam.Del(ctx, *r.Lease))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("claim %s, pod %s: %w", r.ClaimName, r.Pod.Name, err)
	}
	return a.store.remove(&r)
}

// Of returns the records of a pod's sandbox; of a namespace that is not known those of all of the
// pod's sandboxes that ended.
func (a *Attacher) Of(pod Pod) ([]Record, error) {
	return a.store.all(every, func(r *Record) bool {
		return r.Pod.UID == pod.UID && (r.Pod.Netns == pod.Netns || pod.Netns == "" && a.isOver(r.Pod.Netns))
	})
}

// Sweep takes back what sandboxes had that ended while nobody looked, and returns what it took back.
func (a *Attacher) Sweep(ctx context.Context) (swept []Record, err error) {
	over, err := a.store.all(every, func(r *Record) bool { return !r.thisBoot(a.store.bootID) || a.isOver(r.Pod.Netns) })
	errs := []error{err}
	for _, r := range over {
		if err := a.Detach(ctx, r); err != nil {
			errs = append(errs, err)
			continue
		}
		swept = append(swept, r)
	}
	return swept, errors.Join(errs...)
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
