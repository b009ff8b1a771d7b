// Package report makes known what happens on a node: Kubernetes events of the node, of claims and of pods, the status
// of claims, and the history on the status page.
//
// A [Recorder] takes an [Event] as a value. The status page has it at once. The Kubernetes event goes to the API
// server by the budget of the node (package budget), and never keeps its caller waiting. Events of one object that
// wait at the same time become one event for each reason. An event that cannot be sent is lost: the driver's log has
// what it says.
//
// A [ClaimStatus] writes into the status of each prepared claim which HCAs it has, by the names of the kernel, with
// their ports and addresses.
//
// The package reads the host's snapshot and the plans of claims. It changes neither.
package report
