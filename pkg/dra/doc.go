// Package dra is the Kubernetes side of the driver rdma.dev: a Dynamic Resource
// Allocation (DRA) node driver, as KEP-4381 describes it.
//
// The driver of a node publishes the node's HCAs in ResourceSlices. The scheduler
// allocates them to ResourceClaims. When a pod with a claim comes to the node, the
// kubelet calls NodePrepareResources, and passes the CDI device IDs that it gets
// to the container runtime for each container that names the claim. When the last
// pod of the claim is gone, it calls NodeUnprepareResources.
//
// # A claim's way through the driver
//
//	claim ─► plan.New ─► Plan ─► spec from one node.Host ─► claimstore.Claim ─► cdi.Store ─► CDI IDs
//
// A plan that cannot become a spec takes no device; a device that another claim
// has lets no record be written; only a claim with a record gets a spec. So the
// files on disk are always explained by the records: a spec without a record is
// rubbish, a record without a spec is mended by package claims on its own, since the
// kubelet does not call again within a boot.
//
// The API server is not written to in a call of the kubelet, nothing is executed,
// and nothing is synced to a disk.
//
// # The parts
//
//	Driver ─► pods ─► claims ─► node ◄─ offer
//	                              ▲
//	                            report
//
// Package node has the host as a value. Package offer decides what is published, claims prepares, pods moves devices
// into pods, and report makes known what happens. [Driver] makes them and connects them with the kubelet
// (docs/adr/0031).
//
// # One way for data
//
//	host ─► snapshot ─┐
//	file ─► policy ───┼─► decision ─► slices
//	records ─► held ──┘
//
// The driver reads the host into a snapshot. Three things decide which devices it publishes for each HCA: the site's
// policy, what claims hold, and what the API server understands. The driver publishes only a change of the slices.
// Events only say that it is time to look.
//
// A change of the policy does not change what a prepared claim was given. An HCA stays published in the view that the
// claim holds, until the claim ends.
package dra
