// Package node is the host of the driver as one immutable value.
//
// A [Host] is the host at one moment: the HCAs that are present or in the network namespace of a pod, how each known
// HCA was last, and the health of all. A [View] is a Host with the plans of the claims that are prepared on it. Nobody
// changes either. Whoever decides something takes one of them and keeps to it, so the CDI spec of a claim and the files
// beside it are of the same host.
//
// [Node] is the only writer. It follows the events of the kernel (package watch), reads ports whose state changes
// without an event, and judges the health of HCAs (package health). It tells a [Listener] what has changed. The kernel
// takes a moment to move or to reload a device, and during that moment a claim cannot be prepared: [Node.Settle] waits
// for the end of it.
//
// HCAs that claims hold may be away when the driver starts, so Node leaves what it knows to the next driver of the same
// boot (docs/adr/0013).
package node
