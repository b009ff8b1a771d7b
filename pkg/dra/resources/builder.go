package resources

import (
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Slices packs offers and groups into slices. The offers must be in the order of a snapshot. The order of the slices
// is: counters, cards with a single function, each other card by PCI address, groups. There is no slice without
// devices or counters (docs/adr/0060).
func Slices(offers []Offer, groups []Group, mode rdma.NetnsMode, o Options) []resourceslice.Slice {
	return new(Builder).Slices(offers, groups, mode, o)
}

// Builder makes slices repeatedly. It returns the slice of the last call where nothing changed, so callers must not
// modify slices. [equality.Semantic] skips memory that two values share, which makes all later comparisons cheap
// (docs/adr/0032). A Builder is for one goroutine.
type Builder struct {
	maker maker
	made  []made // of the last call
}

// made is a slice of devices and its source: the parts of offers, nil for counters and groups.
type made struct {
	parts []part
	slice resourceslice.Slice
}

// part is a device to make from an offer.
type part struct {
	Offer
	shared bool
}

// Slices is like the function [Slices]. It never returns nil.
func (b *Builder) Slices(offers []Offer, groups []Group, mode rdma.NetnsMode, o Options) []resourceslice.Slice {
	m := maker{mode, &locks{}, o}
	if o.Counters {
		m.locks = newLocks(offers, groups)
	}
	sameMaker := reflect.DeepEqual(b.maker, m)
	var now []made
	add := func(parts []part, s resourceslice.Slice) {
		if i := len(now); i < len(b.made) && equality.Semantic.DeepEqual(b.made[i].slice, s) {
			s = b.made[i].slice
		}
		now = append(now, made{parts, s})
	}
	for _, s := range m.locks.slices() {
		add(nil, s)
	}
	for _, parts := range pack(offers) {
		if i := len(now); sameMaker && i < len(b.made) && reflect.DeepEqual(b.made[i].parts, parts) {
			now = append(now, made{parts, b.made[i].slice})
			continue
		}
		add(parts, resourceslice.Slice{Devices: m.devices(parts)})
	}
	for devices := range slices.Chunk(m.groups(groups, taintsOf(offers)), MaxDevices) {
		add(nil, resourceslice.Slice{Devices: devices})
	}
	b.maker, b.made = m, now
	out := []resourceslice.Slice{}
	for _, one := range now {
		out = append(out, one.slice)
	}
	return out
}

// pack distributes the devices of offers over slices.
func pack(offers []Offer) [][]part {
	var singles, cardful [][]part
	for _, card := range cards(offers) {
		parts := partsOf(card)
		if len(card) == 1 {
			singles = appendChunked(singles, parts)
			continue
		}
		cardful = append(cardful, slices.Collect(slices.Chunk(parts, MaxDevices))...)
	}
	return slices.Concat(singles, cardful)
}

// partsOf lists the devices of one card. The devices of one HCA are next to each other.
func partsOf(card []Offer) []part {
	var out []part
	for _, o := range card {
		if o.Form.Exclusive() {
			out = append(out, part{o, false})
		}
		if o.Form.Shared() {
			out = append(out, part{o, true})
		}
	}
	return out
}

// appendChunked adds parts to the last slice while it has room.
func appendChunked(all [][]part, parts []part) [][]part {
	if n := len(all); n > 0 && len(all[n-1])+len(parts) <= MaxDevices {
		all[n-1] = append(all[n-1], parts...)
		return all
	}
	return append(all, parts)
}

// devices makes the devices of a slice.
func (m maker) devices(parts []part) []resourceapi.Device {
	var out []resourceapi.Device
	for _, p := range parts {
		if p.shared {
			out = append(out, m.shared(p.Offer))
		} else {
			out = append(out, m.exclusive(p.Offer))
		}
	}
	return out
}
