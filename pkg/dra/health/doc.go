// Package health derives the health of a host's HCAs from observations over time: which of
// them can carry traffic, and which fault keeps the others from it, in words for people.
//
// A snapshot of the host is the state at one time. Links flap, drivers are reloaded, subnet
// managers restart. A verdict from one snapshot would cause a write to the API server for each
// change, and evict pods for a short one. So a [Model] takes a sequence of observations with
// their times. For each possible condition of an HCA, it keeps whether the condition holds:
//
//	observation ─► signals: good, bad or unknown ─► debounce ─► View ─┬─► device taints
//	                                                                  ├─► reports to the kubelet
//	                                                                  └─► transitions, for events and metrics
//
// The package reads nothing, starts nothing and has no clock: the caller passes observations
// and times. [Model.Next] returns when the caller should observe again, so the caller need
// not poll for a pending change.
//
// # Debounce
//
// A condition begins to hold when it was seen at both ends of an interval of at least
// [Config].Down, and at every observation in between. It ends in the same way after
// [Config].Up. A condition that begins [Config].Flaps times within [Config].FlapWindow holds
// at once, until it was absent for Up, because a flapping link is as bad as a link that is
// down. Each end of a condition takes Up, which bounds the number of transitions.
//
// A fault at the first observation of an HCA holds at once, because no earlier observation
// shows a good state. It is unconfirmed until Down has passed. An unconfirmed condition
// evicts no pod.
//
// See docs/health.md for the conditions and docs/adr/0012 for the decisions.
package health
