package attach

import (
	"context"
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
)

// detacher returns the interfaces of pods to the host. The caller holds the lock of the record, and not that of the
// directory.
type detacher struct {
	host  *podnet.Host
	store store
}

// detach returns the interface to the host. It keeps the record if an address must still be released. stays means
// that the pod goes on without the interface. Otherwise its namespace ends, and what the pod has there ends with it.
func (b detacher) detach(ctx context.Context, r *Record, stays bool) error {
	if r.Detached || r.Lease != nil && !r.begun() {
		return nil
	}
	changed := r.begun() && r.thisBoot(b.store.bootID)
	if changed {
		w := r.Want
		if stays {
			w.Addresses = slices.Concat(r.Addresses, r.Leased)
		}
		if err := b.host.Detach(r.Pod.Netns, r.Original, w); err != nil {
			return fmt.Errorf("claim %s, pod %s: %w", r.ClaimName, r.Pod.Name, err)
		}
	}
	unlock, err := b.store.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if changed {
		if err := b.dropVLAN(r); err != nil {
			return fmt.Errorf("claim %s, pod %s: %w", r.ClaimName, r.Pod.Name, err)
		}
	}
	return b.markDetached(r)
}

// markDetached records that the interface is on the host again. It removes the record if no address is left to release.
func (b detacher) markDetached(r *Record) error {
	if r.Lease == nil || r.ofBlock() {
		return b.store.remove(r)
	}
	r.Detached = true
	return b.store.put(r)
}

// dropVLAN removes the interface of a record's VLAN from the host if the driver made it and no other pod has one on top
// of it. If some records are unreadable, it stays, because theirs may be such pods. The caller holds the
// lock of the directory, so no other pod begins to use the VLAN meanwhile.
func (b detacher) dropVLAN(r *Record) error {
	if r.Want.VLAN == 0 {
		return nil
	}
	others, err := b.store.all(every, func(o *Record) bool {
		return o.ID() != r.ID() && o.isOn(r.Original, r.Want.VLAN, b.store.bootID)
	})
	if err != nil || len(others) > 0 { // Over reports unreadable records
		return nil
	}
	return b.host.RemoveVLAN(r.Original, r.Want.VLAN)
}
