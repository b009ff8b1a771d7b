// Package health judges the HCAs of a host over time: which of them can carry
// traffic, and if one cannot, why, in words that a person understands.
//
// A snapshot of the host says how things are at one moment. Links flap, drivers are
// reloaded, subnet managers restart; a judgement that followed each moment would
// write to the API server each time, and evict pods for a blink. So a [Model] takes
// a sequence of observations with their times and keeps, for each condition that
// can hold of an HCA, whether it does:
//
//	observation ─► signals: good, bad or unknown ─► debounce ─► View ─┬─► device taints
//	                                                                  ├─► reports to the kubelet
//	                                                                  └─► transitions, for events and metrics
//
// The package reads nothing, starts nothing and has no clock: the caller says what it
// saw and when. [Model.Next] says when it should look again, so that nobody has
// to poll for a state that is about to settle.
//
// # Debounce
//
// A condition holds when it was seen at both ends of an interval of at least
// [Config].Down, and not seen to be gone in between; it ends likewise after
// [Config].Up. A condition that comes and goes [Config].Flaps times within
// [Config].FlapWindow holds at once, and until it has been gone for Up: a flapping
// link is a link that is down. However many flaps there are, each end of a
// condition takes Up, so the number of transitions is bounded by the time.
//
// What is wrong when an HCA is seen for the first time holds at once, since nothing
// says that the HCA was ever good. It is not confirmed before Down has passed, and
// an unconfirmed condition evicts nobody.
//
// See docs/health.md for the conditions and docs/adr/0012 for the decisions.
package health
