// Package offer decides what the driver publishes, and publishes it.
//
// One goroutine makes a decision ([policy.Result]) from a [node.View] and the policy in force, turns it into
// ResourceSlices (package resources), and hands them to a publisher that writes them to the API server. It does so
// again after each change: of the host or of its health, of the policy, of claims that kept an HCA in the form in which
// it was published, and of what the API server turned out to support.
//
// Nothing is published while the container runtime would start containers without their CDI devices. A feature that the
// API server lacks is left out from then on.
//
// The last decision also says what a new claim gets ([Offer.Facts]), and the kubelet hears the health of its devices.
package offer
