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
//	claim ─► plan.New ─► Plan ─► spec from snapshot ─► claimstore.Claim ─► cdi.Store ─► CDI IDs
//
// A plan that cannot become a spec takes no device; a device that another claim
// has lets no record be written; only a claim with a record gets a spec. So the
// files on disk are always explained by the records: a spec without a record is
// rubbish, a record without a spec is mended by [Driver] on its own, since the
// kubelet does not call again within a boot.
//
// The API server is not written to in a call of the kubelet, nothing is executed,
// and nothing is synced to a disk.
//
// # One way for data
//
//	host ─► snapshot ─┐
//	file ─► policy ───┼─► decision ─► slices
//	records ─► held ──┘
//
// The host is read into a snapshot. The site's policy, what claims hold and what the
// API server understands decide by which devices each HCA is published, and only a
// change of the slices is published. Events only say that it is time to look.
//
// What a prepared claim was given does not change with the policy, and as what it
// holds an HCA, that stays published until the claim ends.
package dra
