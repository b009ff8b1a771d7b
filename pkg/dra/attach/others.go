package attach

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
)

// others are the records of all other interfaces of the node.
type others struct {
	records []Record
	unread  error // no record is known, nil if all readable ones are
	bootID  string
}

func (s *store) others(r *Record) others {
	all, err := s.all(every, func(o *Record) bool { return o.ID() != r.ID() }) // Over reports unreadable records
	if !errors.Is(err, errUnlisted) {
		err = nil
	}
	return others{all, err, s.bootID}
}

// checkAddresses returns an error if an address is in use on this node, according to the records. It checks the
// addresses that other pods have or were given. It also checks the addresses that return to the host with an interface
// that is in a pod now. Two claims may name the same address, and plugins such as static give one address to every
// caller. The caller holds the lock of the directory. If the records cannot be listed, no address is free: any pod may
// have it.
func (all others) checkAddresses(addresses []netip.Prefix) error {
	if all.unread != nil && len(addresses) > 0 {
		return fmt.Errorf("find out which addresses are in use: %w", all.unread)
	}
	for _, o := range all.records {
		for _, has := range o.addresses(all.bootID) {
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

// addresses returns the addresses that no other pod may get because of the record.
func (r *Record) addresses(bootID string) (out []netip.Addr) {
	has := r.Leased // also after a reboot of the node: the plugin still has it as given
	if !r.Detached && r.thisBoot(bootID) {
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

// checkMode returns an error if a pod has an interface that excludes the wanted one on top of the same interface of
// the host. The host does not see the interfaces of pods, so the records have to say it.
func (all others) checkMode(w podnet.Want, parent podnet.Original) error {
	for _, o := range all.records {
		if o.isOn(parent, w.VLAN, all.bootID) && podnet.Excludes(w.Mode, o.Want.Mode) {
			who := fmt.Sprintf("pod %s (%s) by claim %s", o.Pod.Name, o.Pod.UID, o.ClaimName)
			return podnet.OtherKind(w.Mode, o.Want.Mode, who)
		}
	}
	return nil
}

// isOn reports whether a pod may have an interface on top of one of the host, or of its VLAN, according to the record.
func (r *Record) isOn(parent podnet.Original, vlan int, bootID string) bool {
	return r.Want.Mode != podnet.Move && r.begun() && !r.Detached && r.thisBoot(bootID) &&
		r.Original.Index == parent.Index && r.Want.VLAN == vlan
}
