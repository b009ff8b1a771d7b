package attach

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
)

// returner returns the interfaces of pods to the host. The caller holds the lock of the directory.
type returner struct {
	host  *podnet.Host
	store store
}

// bringBack returns the interface to the host. It keeps the record if an address must still be given back. The caller
// holds the lock.
func (b returner) bringBack(r *Record) error {
	if r.Returned || r.Lease != nil && !r.begun() {
		return nil
	}
	var err error
	if r.begun() && r.thisBoot(b.store.bootID) {
		err = b.host.Detach(r.Pod.Netns, r.Original, r.Want)
		if err == nil {
			err = b.dropVLAN(r)
		}
	}
	if err != nil {
		return fmt.Errorf("claim %s, pod %s: %w", r.ClaimName, r.Pod.Name, err)
	}
	return b.returned(r)
}

// returned records that the interface is on the host again. It removes the record if no address is left to give back.
func (b returner) returned(r *Record) error {
	if r.Lease == nil || r.ofBlock() {
		return b.store.remove(r)
	}
	r.Returned = true
	return b.store.put(r)
}

// dropVLAN removes the interface of a record's VLAN from the host if the driver made it and no other pod has one on top
// of it. If some records are unreadable, it stays, because theirs may be such pods. The caller holds the lock.
func (b returner) dropVLAN(r *Record) error {
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
