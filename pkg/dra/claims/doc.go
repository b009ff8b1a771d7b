// Package claims prepares claims: it gives the containers of a claim's pods their HCAs, and takes them back.
//
// For the kubelet, a prepared claim is a list of CDI devices. On disk it has three parts: a record (package
// claimstore), a CDI spec that the container runtime reads, and files that the spec mounts. Prepare makes them from one
// allocation (package plan) and one [node.Host], in these steps:
//
//  1. Lock the claim, so that no other call prepares or ends it.
//  2. Make the plan from the claim and the node's facts. If a record of the same allocation exists, reuse its settings.
//  3. Make the spec and the files, and confirm them with the kernel.
//  4. Write the record, which locks the HCAs against other claims.
//  5. Write the files and the spec, and confirm once more.
//
// On a host in the middle of a change, step 2, 3 or 5 fails. Prepare then waits for the host without a lock, and starts
// again.
//
// The record decides. A spec without a record is removed. The missing or outdated spec of a record is written again:
// see [Claims.Restore] and [Claims.WatchSpecs]. Unprepare removes the record. If the kubelet never calls Unprepare,
// [Orphans.Sweep] removes the record once no pod can use the claim any more.
//
// The package knows nothing about publication, and little about pods: see [Offer] and [Pods].
package claims
