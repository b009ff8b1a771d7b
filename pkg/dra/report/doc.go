// Package report writes Kubernetes events of the node, of claims and of pods. It also writes the status of claims, and
// makes the status page and the data of metrics.
//
// A [Recorder] takes an [event.Event] as a value and never blocks its caller. The status page shows the event at once.
// The Kubernetes event is sent to the API server within the budget of the node (package budget). Pending events of one
// object are merged into one event for each reason. An event that cannot be sent is lost: the driver's log has its
// content.
//
// A [ClaimStatus] writes into the status of each prepared claim which HCAs it has, by the names of the kernel, with
// their ports and addresses.
//
// The package reads the host's snapshot and the plans of claims. It changes neither.
package report
