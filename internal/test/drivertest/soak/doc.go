// Package soak lets a driver live through trouble of all kinds, an hour's worth of it in a
// minute: kills at any moment, restarts, rolling updates, links that flap, devices that come,
// go and are renamed, lost specs, claims deleted by force, and an API server that is away,
// slow, busy, or of another opinion. After each step everything must be right: package
// invariants, the slices with their taints, and what the kubelet hears of health.
//
// A seed decides about the steps. Step n of a seed is the same in every run. What is left to the
// machine is the moment of a kill within a call. The [Server] is that of test/cluster/soak, with
// a real API server.
package soak
