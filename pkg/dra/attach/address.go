package attach

import (
	"fmt"
	"net/netip"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
)

// othersHave says whose an address is by the records of the node: what another pod has or was given, and what the host gets back
// with an interface that is in a pod. Two claims may name the same one, and plugins such as static give it to all who
// ask. Its caller has the lock of all records.
func (a *Attacher) othersHave(r *Record, addresses []netip.Prefix) error {
	if len(addresses) == 0 {
		return nil
	}
	others, _ := a.store.all(every, func(o *Record) bool { return o.id() != r.id() }) // what cannot be read is reported by others
	for _, o := range others {
		for _, has := range o.addresses(a.store.bootID) {
			for _, address := range addresses {
				if has == address.Addr().Unmap() {
					return fmt.Errorf("address %s is in use on this node: pod %s (%s) has it by claim %s: give each claim addresses of its own (network.addresses, or the range of its ipam)",
						has, o.Pod.Name, o.Pod.UID, o.ClaimName)
				}
			}
		}
	}
	return nil
}

// addresses are those that nobody else may have because of the record.
func (r *Record) addresses(bootID string) (out []netip.Addr) {
	has := r.Given // also after a reboot of the node: its plugin knows it as given
	if !r.Returned && r.thisBoot(bootID) {
		has = append(has[:len(has):len(has)], r.Addresses...)
		if r.Want.Mode == podnet.Move {
			out = r.Original.IPs()
		}
	}
	for _, p := range has {
		out = append(out, p.Addr().Unmap())
	}
	return out
}
