// Package resources turns a snapshot of a host into the ResourceSlices that the
// Kubernetes scheduler allocates from.
//
// It is a pure function: the same snapshot gives the same slices, in the same
// order, so that whoever publishes them can compare instead of guess.
//
// # Pool and slices
//
// All devices of a node are in one pool, named like the node. A slice holds
// whole cards: a PF with its VFs and SFs has slices of its own, and PFs without
// any share slices. So a change of one card rewrites one slice, and a card that
// grows VFs does not move the others. No slice has more than 64 devices, which is
// the API's limit as soon as one device has a taint (docs/adr/0003).
package resources

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// MaxDevices is how many devices a slice holds at most
// (resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures).
const MaxDevices = 64

// Options say which optional features of the API the slices use.
type Options struct {
	// Counters makes the devices of a card exclude each other where they must
	// (KEP-4815).
	Counters bool
	// Consumable lets several claims have a shared device at a time (KEP-5075).
	// Without it a shared device is for one claim at a time.
	Consumable bool
}

// Build returns what a node publishes: one pool with at least one slice. A pool
// with an empty slice says that the driver runs and has nothing to offer.
func Build(pool string, published []resourceslice.Slice) resourceslice.DriverResources {
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{pool: {Slices: published}}}
}

// Slices packs offers, which are in the order of a snapshot, and groups into
// slices. Slices of single functions come first, then those of each card with
// several, by PCI address. An HCA in exclusive network namespace mode cannot be
// opened by a pod with a network of its own, so such a host offers none.
func Slices(offers []Offer, groups []Group, mode rdma.NetnsMode, o Options) []resourceslice.Slice {
	if mode == rdma.NetnsExclusive {
		return []resourceslice.Slice{{}}
	}
	var singles, grouped [][]Offer
	for _, card := range cards(offers) {
		if len(card) == 1 {
			singles = appendChunked(singles, card)
			continue
		}
		grouped = append(grouped, slices.Collect(slices.Chunk(card, MaxDevices))...)
	}
	var out []resourceslice.Slice
	for _, part := range append(singles, grouped...) {
		out = append(out, slice(part, mode))
	}
	if out == nil {
		return []resourceslice.Slice{{}}
	}
	return out
}

// cards groups offers that stand next to each other by the card they belong to.
func cards(offers []Offer) [][]Offer {
	var out [][]Offer
	for _, offer := range offers {
		if offer.View == ViewNone {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].HCA.Family() == offer.HCA.Family() {
			out[n-1] = append(out[n-1], offer)
			continue
		}
		out = append(out, []Offer{offer})
	}
	return out
}

// appendChunked adds offers to the last group while it has room.
func appendChunked(groups [][]Offer, offers []Offer) [][]Offer {
	if n := len(groups); n > 0 && len(groups[n-1])+len(offers) <= MaxDevices {
		groups[n-1] = append(groups[n-1], offers...)
		return groups
	}
	return append(groups, slices.Clone(offers))
}

func slice(offers []Offer, mode rdma.NetnsMode) resourceslice.Slice {
	var s resourceslice.Slice
	for _, offer := range offers {
		s.Devices = append(s.Devices, resourceapi.Device{Name: offer.HCA.Name, Attributes: Attributes(offer.HCA, mode)})
	}
	return s
}
