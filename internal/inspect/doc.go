// Package inspect answers questions about the RDMA devices of a cluster: which devices each
// node has, which claims hold them, their position relative to the GPUs, and why a pod does
// not get the devices of its claims.
//
// Its packages are the core of the plugin kubectl-rdma. From the ground up:
//
//   - model has the objects of a cluster, with indexes, and the scheduler's rules for single devices.
//   - why explains a pod. lists has nodes, devices, claims, pods and other tables, and manifest reads files of objects
//     that do not exist yet, and writes rails into them. fabric makes one page of them all. These five are pure
//     functions of their input.
//   - collect reads objects from an API server. drain writes DeviceTaintRules, traffic tests HCAs by traffic, and
//     bundle makes a support archive.
//
// # Why
//
// [why.Explain] explains a pod. It does not reimplement Kubernetes' rules: the CEL compiler of
// Kubernetes evaluates class and claim selectors, and the scheduler's allocator
// (k8s.io/dynamic-resource-allocation/structured) decides whether an allocation is possible. The
// allocator returns yes or no, without a reason. So the reasons come from two kinds of checks:
//
//   - For each device of the class, the first reason against it, in the allocator's order: the
//     selectors, its pool and node, the taints of its slice and of DeviceTaintRules, whether a claim
//     holds it, its capacity, and the counters that it shares with others. This is a [model.Ruling].
//   - For the claims as a whole, the allocator's answer after one change: one constraint or
//     selector left out, one taint tolerated, one claim of another pod ended, fewer devices. A
//     change after which the claims fit is a [why.Remedy].
//
// The second kind does not depend on the reason of the first answer. It also finds causes that
// single devices do not show: constraints, and requests that take each other's devices.
//
// Unread lists what the user may not read. Reports without it are shorter, but not wrong.
package inspect
