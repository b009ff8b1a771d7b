package resources

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// lockTotal is the value of a lock's counter, which works as a reader-writer lock. The exclusive device of the HCA
// takes all of it. Every other device that uses the HCA takes 1. The value is a constant larger than the number of
// devices that a pool can have.
const lockTotal = 1_000_000

// locks has the HCAs with a counter and the counter set of each. An HCA has a lock only if its exclusive device can
// conflict with another device.
type locks struct {
	set   map[string]string   // by the HCA's name, which is also the counter's name
	sets  []string            // names of the sets, in order
	heads map[string][]string // HCAs of a card that are neither VF nor SF, by family
}

// use is the amount that a device takes of each lock, by the HCA's name.
type use map[string]int64

// newLocks determines which HCAs need a lock, and places the locks in counter sets.
func newLocks(offers []Offer, groups []Group) *locks {
	l := &locks{set: map[string]string{}, heads: map[string][]string{}}
	for _, o := range offers {
		if head(o.HCA) {
			l.heads[o.HCA.Family()] = append(l.heads[o.HCA.Family()], o.HCA.Name)
		}
	}
	users := map[string]int{}
	for _, o := range offers {
		for range partsOf([]Offer{o}) {
			l.count(users, o.HCA)
		}
	}
	for _, g := range groups {
		l.count(users, g.touches()...)
	}
	var needed []Offer
	for _, o := range offers {
		if o.Form.Exclusive() && !o.Unlocked && users[o.HCA.Name] > 1 {
			needed = append(needed, o)
		}
	}
	l.place(needed)
	return l
}

// head reports whether an HCA is neither a VF nor an SF. The VFs and SFs of its card are parts of it.
func head(h *rdma.HCA) bool { return h.PF == "" }

// touched returns the HCAs that a device with these members uses. A VF or SF also uses the heads of its card.
func (l *locks) touched(members ...*rdma.HCA) map[string]bool {
	out := map[string]bool{}
	for _, h := range members {
		out[h.Name] = true
		if !head(h) {
			for _, name := range l.heads[h.Family()] {
				out[name] = true
			}
		}
	}
	return out
}

func (l *locks) count(users map[string]int, members ...*rdma.HCA) {
	for name := range l.touched(members...) {
		users[name]++
	}
}

// place fills counter sets, first with the locks of heads and then with the locks of VFs and SFs. The heads of a card
// must stay in one set: a VF consumes from this set and from its own, and the API allows no third set.
func (l *locks) place(needed []Offer) {
	var parts [][]string
	for _, card := range cards(needed) {
		var heads []string
		for _, o := range card {
			if head(o.HCA) {
				heads = append(heads, o.HCA.Name)
			}
		}
		parts = append(parts, slices.Collect(slices.Chunk(heads, resourceapi.ResourceSliceMaxCountersPerCounterSet))...)
	}
	for _, o := range needed {
		if !head(o.HCA) {
			parts = append(parts, []string{o.HCA.Name})
		}
	}
	room := 0
	for _, names := range parts {
		if room < len(names) {
			l.sets = append(l.sets, fmt.Sprintf("locks-%d", len(l.sets)))
			room = resourceapi.ResourceSliceMaxCountersPerCounterSet
		}
		for _, name := range names {
			l.set[name] = l.sets[len(l.sets)-1]
			room--
		}
	}
}

// exclusive returns the use of an HCA by one claim alone.
func (l *locks) exclusive(o Offer) use {
	u := l.shared(o.HCA)
	if _, locked := u[o.HCA.Name]; locked {
		u[o.HCA.Name] = lockTotal
	}
	return u
}

// shared returns the use of HCAs beside other users.
func (l *locks) shared(members ...*rdma.HCA) use {
	u := use{}
	for name := range l.touched(members...) {
		if l.set[name] != "" {
			u[name] = 1
		}
	}
	return u
}

// bySet returns the counters of a use, by the name of their set.
func (l *locks) bySet(u use) map[string]map[string]resourceapi.Counter {
	sets := map[string]map[string]resourceapi.Counter{}
	for name, amount := range u {
		if sets[l.set[name]] == nil {
			sets[l.set[name]] = map[string]resourceapi.Counter{}
		}
		sets[l.set[name]][name] = resourceapi.Counter{Value: count(amount)}
	}
	return sets
}

// consumption converts a use to the form of the API.
func (l *locks) consumption(u use) []resourceapi.DeviceCounterConsumption {
	sets := l.bySet(u)
	var out []resourceapi.DeviceCounterConsumption
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		out = append(out, resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: sets[set]})
	}
	return out
}

// slices returns the slices that define the counters.
func (l *locks) slices() []resourceslice.Slice {
	all := use{}
	for name := range l.set {
		all[name] = lockTotal
	}
	counters := l.bySet(all)
	var out []resourceslice.Slice
	for names := range slices.Chunk(l.sets, resourceapi.ResourceSliceMaxCounterSets) {
		var s resourceslice.Slice
		for _, name := range names {
			s.SharedCounters = append(s.SharedCounters, resourceapi.CounterSet{Name: name, Counters: counters[name]})
		}
		out = append(out, s)
	}
	return out
}

// CheckGroup returns an error if the counters of a group's members are more than one device may consume. groups must
// include the group itself.
func CheckGroup(group Group, offers []Offer, groups []Group) error {
	l := newLocks(offers, groups)
	if n := len(l.consumption(l.shared(group.touches()...))); n > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice {
		return fmt.Errorf("its %d HCAs that are published exclusively as well have counters in %d counter sets, and a device may consume from %d: "+
			"select fewer HCAs, or publish them shared",
			len(l.shared(group.touches()...)), n, resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice)
	}
	return nil
}
