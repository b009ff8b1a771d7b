// Package soak holds the soak of a driver beside a real API server: the steps and the
// invariants of package internal/test/drivertest/soak, with a server that validates, refuses
// what RBAC and the chart's policies do not allow, has conflicts, and is killed.
//
// The driver has what a pod of the chart has: the rights of the plain manifests, and a token
// that is bound to its pod. Claims are made by their user, allocated by the scheduler's
// allocator from the slices that the driver has published, protected by a finalizer, reserved
// for a pod, and deallocated as the controller of claims does. Only a kubelet's side is not
// real. The same server tells whether the driver can write the status of claims as other
// clients make them.
package soak
