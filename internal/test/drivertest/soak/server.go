package soak

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/rest"
)

// Server is the API server of a soak, and what of the control plane talks to it: users, the
// scheduler, the controller of claims. It has a node [drivertest.NodeName] without slices.
type Server interface {
	// Config is how a driver reaches it; the token is that of its pod.
	Config() *rest.Config
	// NewPod makes the next pod of the driver, and returns its UID and a token of its own.
	// The driver has two pods during a rolling update.
	NewPod() (uid, token string)
	// RemovePod deletes a pod of the driver.
	RemovePod(uid string)
	// Allocate makes a claim that has the devices that are in its status. The server decides
	// about its UID, and about the IDs of its shares.
	Allocate(claim *resourceapi.ResourceClaim)
	// RemoveClaim deletes a claim, as its user and the controller of claims do together.
	RemoveClaim(claim *resourceapi.ResourceClaim)
	// Deallocate takes the allocation of a claim, as the controller of claims does when no pod uses it, and allocates
	// the claim on another node if elsewhere.
	Deallocate(claim *resourceapi.ResourceClaim, elsewhere bool)
	// Slices are those of the node.
	Slices() []resourceapi.ResourceSlice
	// WipeSlices deletes them, as a kubelet does that starts.
	WipeSlices()
	// TouchSlices has somebody else write each of them, which changes no more than their
	// versions.
	TouchSlices()
	// Restart kills the server and starts it again.
	Restart()
}
