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

// Build returns what a node publishes: one pool with at least one slice. A pool
// with an empty slice says that the driver runs and has nothing to offer.
func Build(pool string, snap *rdma.Snapshot) resourceslice.DriverResources {
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		pool: {Slices: Slices(snap)},
	}}
}

// Slices packs the usable HCAs of a snapshot into slices. Slices of single
// functions come first, then those of each card with several, by PCI address. An
// HCA in exclusive network namespace mode cannot be opened by a pod with a
// network of its own, so such a host offers none.
func Slices(snap *rdma.Snapshot) []resourceslice.Slice {
	if snap.NetnsMode == rdma.NetnsExclusive {
		return []resourceslice.Slice{{}}
	}
	var singles, grouped [][]*rdma.HCA
	for _, card := range cards(snap.Usable()) {
		if len(card) == 1 {
			singles = appendChunked(singles, card)
			continue
		}
		grouped = append(grouped, slices.Collect(slices.Chunk(card, MaxDevices))...)
	}
	var out []resourceslice.Slice
	for _, group := range append(singles, grouped...) {
		out = append(out, slice(group, snap.NetnsMode))
	}
	if out == nil {
		return []resourceslice.Slice{{}}
	}
	return out
}

// cards groups HCAs that stand next to each other by the card they belong to.
func cards(hcas []*rdma.HCA) [][]*rdma.HCA {
	var out [][]*rdma.HCA
	for _, h := range hcas {
		if n := len(out); n > 0 && out[n-1][0].Family() == h.Family() {
			out[n-1] = append(out[n-1], h)
			continue
		}
		out = append(out, []*rdma.HCA{h})
	}
	return out
}

// appendChunked adds HCAs to the last group while it has room.
func appendChunked(groups [][]*rdma.HCA, hcas []*rdma.HCA) [][]*rdma.HCA {
	if n := len(groups); n > 0 && len(groups[n-1])+len(hcas) <= MaxDevices {
		groups[n-1] = append(groups[n-1], hcas...)
		return groups
	}
	return append(groups, slices.Clone(hcas))
}

func slice(hcas []*rdma.HCA, mode rdma.NetnsMode) resourceslice.Slice {
	var s resourceslice.Slice
	for _, h := range hcas {
		s.Devices = append(s.Devices, resourceapi.Device{Name: h.Name, Attributes: Attributes(h, mode)})
	}
	return s
}
