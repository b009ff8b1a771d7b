// Package dra is the Kubernetes side of the driver rdma.dev: a Dynamic Resource Allocation (DRA) node driver, as
// KEP-4381 describes it.
//
// The driver of a node publishes the node's HCAs in ResourceSlices. The scheduler allocates them to ResourceClaims.
// When a pod with a claim comes to the node, the kubelet calls NodePrepareResources, and the driver returns CDI device
// IDs. The kubelet passes them to the container runtime for each container that names the claim. When the last pod of
// the claim has ended, the kubelet calls NodeUnprepareResources.
//
// # The path of a claim through the driver
//
//	claim ─► plan.New ─► Plan ─► spec from one node.Host ─► claimstore.Claim ─► cdi.Store ─► CDI IDs
//
// If the plan does not result in a spec, the claim locks no device. If another claim holds a device, the driver writes
// no record. Only a claim with a record gets a spec. So the records always explain the files on disk. The driver
// removes a spec without a record. Package claims writes the missing spec of a record without being asked, because the
// kubelet does not call again until the next boot.
//
// During a call of the kubelet the driver writes nothing to the API server, executes no program, and syncs nothing to a
// disk.
//
// # The parts
//
//	Driver ─► pods ─► claims ─► node ◄─ offer
//	                              ▲
//	                            report
//
// Package node has the host as a value. Package offer decides what is published. Package claims prepares claims.
// Package pods moves devices into pods. Package report writes events, the status of claims, metrics and the status
// page. [Driver] makes these parts and connects them with the kubelet (docs/adr/0031).
//
// # One direction for data
//
//	host ─► snapshot ─┐
//	file ─► policy ───┼─► decision ─► slices
//	records ─► held ──┘
//
// The driver reads the host into a snapshot. Three things decide which devices it publishes for each HCA: the site's
// policy, what claims hold, and which features the API server has. The driver writes slices only if they change. An
// event only starts a new reading.
//
// A change of the policy does not change what a prepared claim was given. While a claim uses an HCA, the HCA keeps the
// form in which it was published (exclusive or shared).
package dra
