// Package claims prepares claims: it gives the containers of a claim's pods their HCAs, and takes them back.
//
// For the kubelet, a prepared claim is a list of CDI devices. On disk it is a record (package claimstore), a CDI spec
// that the container runtime reads, and files that the spec mounts. Prepare makes them in this order, from one
// allocation (package plan) and one [node.Host]:
//
//  1. lock the claim, so that nobody else prepares or ends it
//  2. make the plan, from the claim and from the node's facts; or again from the record of the same allocation
//  3. make the spec and the files, and confirm them with the kernel
//  4. write the record, which locks the HCAs against other claims
//  5. write the files and the spec, and confirm once more
//
// A host in the middle of a change fails step 3 or 5. Prepare then waits for the host with no lock, and begins again.
//
// The record decides. A spec without a record is removed, and the spec of a record is written again whenever it is
// missing or does not fit the host: [Claims.Restore] and [Claims.WatchSpecs]. A record goes with Unprepare. If the
// kubelet never calls that, [Claims.SweepOrphans] removes the record once nobody can use the claim any more.
//
// The package knows nothing of what is published, and little of pods: see [Offer] and [Pods].
package claims
