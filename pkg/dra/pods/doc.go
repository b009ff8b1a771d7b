// Package pods brings what claims ask for into the network namespaces of pods, and takes it back.
//
// On a host in exclusive RDMA network namespace mode, an HCA can be opened in one network namespace only. So the HCAs
// of a pod's claims move into the pod before its first container starts, and back when the pod ends. In both modes,
// claims may ask for network interfaces in the pod (package attach).
//
// The container runtime announces pods over NRI (package nri), and [Pods] is its handler. Correctness does not depend
// on the announcements. If the runtime continues without the driver, the hook does not let a container start without
// its devices. If a namespace ends, the kernel returns its devices. At the next connection the runtime lists all pods,
// and the driver gives pods what they lack: see the queue of pending pods.
//
// Pods with different HCAs do not wait for each other, whatever one of them makes large in its namespace. Each handler
// answers in the runtime's time, and what is not finished goes on with the locks of its own pod and HCAs. Only the
// moves of HCAs have one lock: HCAs that move concurrently would take each other's node numbers.
package pods
