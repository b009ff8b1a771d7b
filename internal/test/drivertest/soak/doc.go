// Package soak lets a driver live through trouble of all kinds, an hour's worth of it in a
// minute: kills at any moment, restarts, rolling updates, links that flap, devices that come,
// go and are renamed, lost specs, claims deleted by force, and an API server that is away,
// slow, busy, or of another opinion. After each step everything must be right: package
// invariants, the slices with their taints, and what the kubelet hears of health.
//
// A seed decides about the steps. Step n of a seed is the same on every [Server]: the fake one
// of package drivertest, or a real API server. What is left to the machine is the moment of a
// kill within a call.
//
//	func TestSoak(t *testing.T) { soak.Run(t, soak.Fake(t)) }
package soak
