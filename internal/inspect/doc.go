// Package inspect answers questions about the RDMA devices of a cluster: which devices each
// node has, which claims hold them, their position relative to the GPUs, and why a pod does
// not get the devices of its claims.
//
// It is the core of the plugin kubectl-rdma, and a pure function of its input. Package collect
// reads objects from an API server into a [Cluster], and package manifest those that do not exist
// yet from files into a [Manifest]. This package computes reports from them, and writes these.
//
// # Why
//
// [Cluster.Why] explains a pod. It does not reimplement Kubernetes' rules: the CEL compiler of
// Kubernetes evaluates class and claim selectors, and the scheduler's allocator
// (k8s.io/dynamic-resource-allocation/structured) decides whether an allocation is possible. The
// allocator returns yes or no, without a reason. So the reasons come from two kinds of checks:
//
//   - For each device of the class, the first reason against it, in the allocator's order: the
//     selectors, its pool and node, the taints of its slice and of DeviceTaintRules, whether a claim
//     holds it, its capacity, and the counters that it shares with others. This is a [Ruling].
//   - For the claims as a whole, the allocator's answer after one change: one constraint or
//     selector left out, one taint tolerated, one claim of another pod ended, fewer devices. A
//     change after which the claims fit is a [Remedy].
//
// The second kind does not depend on the reason of the first answer. It also finds causes that
// single devices do not show: constraints, and requests that take each other's devices.
//
// Unread lists what the user may not read. Reports without it are shorter, but not wrong.
package inspect
