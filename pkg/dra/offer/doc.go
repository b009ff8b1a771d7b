// Package offer decides what the driver publishes, and publishes it.
//
// One goroutine makes a decision ([policy.Result]) from a [node.View] and the present policy. It makes ResourceSlices
// from the decision (package resources), and passes them to a publisher that writes them to the API server. It decides
// again after each change of the host, of its health or of the policy. It also decides again after the end of a claim
// that affected the decision, and when the API server turns out to lack a feature.
//
// Nothing is published while the container runtime would start containers without their CDI devices. If the API server
// lacks a feature, the driver omits the feature until it restarts.
//
// A new claim gets what the last decision says ([Offer.Facts]). The package also reports the health of the devices to
// the kubelet.
package offer
