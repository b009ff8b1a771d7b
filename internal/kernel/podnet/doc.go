// Package podnet attaches network interfaces of the host to pods, and detaches them. It moves the interface itself into
// the network namespace of the pod, or makes a macvlan or ipvlan on top of it there. It also gets addresses from CNI
// plugins.
//
// The kernel's behaviour determines the design:
//
//   - An interface that changes its namespace goes down, and loses addresses and routes. So the package records them
//     first ([Original]), and restores them.
//   - The name must be free in the other namespace, and a pod may have an eth0. So an interface moves under a unique
//     transit name, and is renamed in the pod.
//   - When a namespace ends, the kernel deletes virtual interfaces. It moves interfaces of hardware back to the first
//     namespace, with their name in the pod, or dev%d if that name is taken. So the package identifies an interface by
//     its device, which a pod cannot change.
//   - Most settings of a pod stay on the interface: flags, sizes, offloads, eBPF programs. So the package restores or
//     removes them.
//
// All operations are idempotent.
//
// It needs CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter a namespace.
package podnet
