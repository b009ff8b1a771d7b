package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// A CNI plugin may be slow, or may not answer at all. So the driver calls it before it attaches an interface, and after
// it took one back. Meanwhile only the pod of the interface waits. The driver writes a record before it calls the
// plugin. The plugin may give an address that the driver never learns, because the driver died or stopped waiting. The
// driver releases such an address before it calls the plugin again, or when the pod has ended.

var errNoAddress = errors.New("its IPAM has given no address yet")

// leases gets addresses of pods from IPAM, and releases them.
type leases struct {
	host     *podnet.Host
	ipam     *podnet.IPAM
	store    store
	detacher detacher
}

// Lease gets the address of a pod from the IPAM of an interface: a CNI plugin, or the node's block. It does nothing if
// the pod has an address or needs none. ctx and the time limit of plugins bound it. After an error, the caller must
// take back what the pod has of the interface, or call Lease again.
func (a *Attacher) Lease(ctx context.Context, pod Pod, i Interface) error {
	return a.leases.lease(ctx, pod, i)
}

func (l *leases) lease(ctx context.Context, pod Pod, i Interface) error {
	if i.Device.Network.IPAM == "" {
		return nil
	}
	want := newRecord(l.store.bootID, pod, i)
	block, own, err := blocks.Read(want.Lease.Config)
	if err != nil {
		return fmt.Errorf("get an address of ipam %q: %w", want.Lease.Network, err)
	}
	if own {
		return l.fromBlock(ctx, want, block)
	}
	unlock, err := l.store.lockRecord(ctx, want)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := l.prepare(ctx, want)
	if err != nil || len(r.Leased) > 0 {
		return err
	}
	answer, err := l.ipam.Add(ctx, *r.Lease)
	if err != nil {
		return err
	}
	return l.keep(ctx, r, answer)
}

// prepare returns the record of a lease. Its addresses are in Leased, or the plugin must be called for them. Before a
// second call of the plugin, prepare releases the address of the first call. The caller holds the lock of the record.
func (l *leases) prepare(ctx context.Context, want *Record) (*Record, error) {
	for {
		r, fresh, err := l.register(ctx, want)
		if err != nil || fresh || len(r.Leased) > 0 && !r.Detached {
			return r, err
		}
		if r.Lease != nil {
			if err := l.releaseAtPlugin(ctx, r); err != nil {
				return nil, err
			}
		}
		if !r.Detached {
			return r, nil
		}
		if err := l.store.remove(r); err != nil {
			return nil, err
		}
	}
}

// register returns the record of a pod's interface. If there is none, it writes a record that the plugin is about to be
// called (fresh). If the record is that of an earlier sandbox, it returns the interface to the host first. The caller
// holds the lock of the record.
func (l *leases) register(ctx context.Context, want *Record) (r *Record, fresh bool, err error) {
	if ended(want.Pod.Netns) {
		return nil, false, rdmanetns.ErrEnded
	}
	had, err := readRecord(l.store.path(want))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return want, true, l.store.put(want)
	case err != nil:
		return nil, false, unreadable(l.store.path(want), err)
	case had.Pod == want.Pod && had.thisBoot(l.store.bootID):
		return &had, false, nil
	}
	if err := l.detacher.detach(ctx, &had, false); err != nil {
		return nil, false, err
	}
	had.Detached = true // only its address is left to release
	return &had, false, nil
}

// keep records what a plugin gave. It returns an error if another pod has one of them, or if the pod has
// ended meanwhile.
func (l *leases) keep(ctx context.Context, r *Record, answer podnet.Answer) error {
	unlock, err := l.store.lock(context.WithoutCancel(ctx)) // an address without a record would be lost
	if err != nil {
		return err
	}
	defer unlock()
	now, err := readRecord(l.store.path(r))
	if err == nil && (now.Pod != r.Pod || now.Detached) {
		err = rdmanetns.ErrEnded
	}
	if err == nil {
		err = l.store.others(&now).checkAddresses(answer.Addresses)
	}
	if err != nil {
		return fmt.Errorf("keep the address that ipam %q gave: %w", r.Lease.Network, err)
	}
	now.Leased, now.LeasedGateways, now.LeasedRoutes = answer.Addresses, answer.Gateways, answer.Routes
	return l.store.put(&now)
}

// Release releases the address of a detached interface at its plugin, and removes the record. It is idempotent. It
// does nothing while the pod may have the interface.
func (a *Attacher) Release(ctx context.Context, r Record) error {
	return a.leases.release(ctx, r)
}

func (l *leases) release(ctx context.Context, r Record) error {
	unlock, err := l.store.lockRecord(ctx, &r)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := l.store.current(&r)
	if err != nil || now == nil || now.Lease == nil || !now.Detached && now.begun() && !ended(now.Pod.Netns) {
		return err
	}
	if err := l.releaseAtPlugin(ctx, now); err != nil {
		return fmt.Errorf("claim %s, pod %s: %w", now.ClaimName, now.Pod.Name, err)
	}
	return l.dropLease(ctx, now)
}

// dropLease removes the record. If the interface is not on the host yet, it keeps the record without the lease.
func (l *leases) dropLease(ctx context.Context, r *Record) error {
	unlock, err := l.store.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := l.store.current(r)
	if err != nil || now == nil {
		return err
	}
	if now.Detached || !now.begun() {
		return l.store.remove(now)
	}
	if !ended(now.Pod.Netns) { // the interface was attached meanwhile
		return nil
	}
	now.Lease, now.Leased = nil, nil
	return l.store.put(now)
}
