// Package inspect answers questions about the RDMA devices of a cluster: what is on
// which node, who has it, how it sits beside the GPUs, and why a pod does not get
// what its claims ask for.
//
// It is the core of the plugin kubectl-rdma, and a function of its input. Somebody
// else reads objects from an API server into a [Cluster]; everything here computes a
// report of it, and writes the report.
//
// # Why
//
// [Cluster.Why] explains a pod. It has no opinion of its own on what matches: class
// and claim selectors are evaluated by the CEL compiler of Kubernetes, and whether
// something can be allocated is asked of the scheduler's allocator
// (k8s.io/dynamic-resource-allocation/structured). That allocator says yes or no and
// never why not, so the reasons come from two kinds of questions:
//
//   - For each device of the class, the first thing that rules it out is looked for, in
//     the order in which the allocator looks: the selectors, the taints, whether a claim
//     holds it, its capacity, the counters it shares with others. This is a [Ruling].
//   - For the claims as a whole, the allocator is asked again with one thing changed: one
//     constraint or selector left out, one taint tolerated, one claim of somebody else
//     ended, fewer devices. What makes the claims fit is a [Remedy].
//
// The second kind needs no theory of why the first answer was no, and finds what no look
// at single devices can: constraints, and requests that take each other's devices.
//
// A report holds what is known. What could not be read, because the user may not, is in
// Unread, and answers get shorter instead of wrong.
package inspect
