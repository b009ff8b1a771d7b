// Package resources turns what a node offers into the ResourceSlices that the
// Kubernetes scheduler allocates from.
//
// It is a pure function: the same offers give the same slices, in the same order,
// so that whoever publishes them can compare instead of guess. What is offered,
// the site's policy decides (package policy).
//
// # Pool and slices
//
// All devices of a node are in one pool, named like the node. A slice holds
// whole cards: a PF with its VFs and SFs has slices of its own, and PFs without
// any share slices. So a change of one card rewrites one slice, and a card that
// grows VFs does not move the others. No slice has more than 64 devices, which is
// the API's limit as soon as one device has a taint (docs/adr/0003).
//
// # Sharing
//
// A shared device has capacities. Each claim consumes a part of them (KEP-5075). Devices that use the same HCA and
// exclude each other consume counters of it (KEP-4815). Counters have slices of their own, which come first. See
// docs/sharing.md and docs/adr/0009.
package resources

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
	// NoTaints leaves taints out: the API server drops them (KEP-5055).
	NoTaints bool
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
