// Package node has the driver's host as one immutable value.
//
// A [Host] is the host at one moment. It has the HCAs that are present or in the network namespace of a pod, and the
// last known state of each HCA. A [View] is a Host with the health that was judged from it, and with the plans of its
// prepared claims. Nobody modifies either. A caller that decides something takes one of them and uses only this one. So
// the CDI spec of a claim and the files beside it are of the same host.
//
// [Node] is the only writer. It follows the events of the kernel (package watch). It also polls ports whose state
// changes without an event, and judges the health of HCAs (package health). It calls a [Listener] after each change.
// While the kernel moves or reloads a device, a claim cannot be prepared for a moment: [Node.Settle] waits for the end
// of such a change.
//
// Node also reads the records of claims, although the host does not depend on them: a View needs their plans, and a held
// HCA stays known while it is missing. So this package imports packages claimstore and plan, and no part of the driver.
//
// HCAs that claims hold may be missing when the driver starts. So Node stores what it knows of them, and the next
// driver of the same boot reads it (docs/adr/0013).
package node
