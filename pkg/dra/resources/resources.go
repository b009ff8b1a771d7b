// Package resources turns what a node offers into the ResourceSlices that the Kubernetes scheduler allocates from.
//
// It is a pure function: the same offers result in the same slices, in the same order. So the publisher can compare
// slices to detect a change. The site's policy decides what is offered (package policy).
//
// # Pool and slices
//
// All devices of a node are in one pool, named like the node. A slice holds whole cards. A PF with its VFs and SFs has
// slices of its own, and PFs without any share slices. So a change of one card rewrites one slice, and new VFs of a
// card do not change the slices of other cards. A slice has at most 64 devices, which is the API's limit as soon as one
// device has a taint (docs/adr/0003).
//
// # Sharing
//
// A shared device has capacities. Each claim consumes a part of them (KEP-5075). Devices that use the same HCA and
// exclude each other consume counters of it (KEP-4815). Counters have slices of their own, which come first. See
// docs/sharing.md and docs/adr/0009.
package resources

// MaxDevices is the greatest number of devices in a slice (resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures).
const MaxDevices = 64

// Options select the optional features of the API that the slices use.
type Options struct {
	// Counters publishes counters, so that devices of a card exclude each other where necessary (KEP-4815).
	Counters bool
	// Consumable lets several claims have a shared device at the same time (KEP-5075). Without it a shared device is
	// for one claim at a time.
	Consumable bool
	// NoTaints omits taints, for an API server that drops them (KEP-5055).
	NoTaints bool
	// FewTaints publishes at most 4 taints of a device, for an API server before Kubernetes 1.36.
	FewTaints bool
}

// cards groups adjacent offers of the same card. It omits offers with FormNone.
func cards(offers []Offer) [][]Offer {
	var out [][]Offer
	for _, offer := range offers {
		if offer.Form == FormNone {
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
