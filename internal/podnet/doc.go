// Package podnet brings network interfaces of the host into the network namespaces of
// pods, and back: the interface itself, or a macvlan on top of it. It also asks CNI plugins
// for addresses.
//
// What the kernel does shapes it:
//
//   - An interface that changes its namespace goes down, and loses addresses and routes. So
//     what the host had is recorded first ([Original]), and given back.
//   - Its name must be free where it goes, and a pod may well have an eth0. So it moves under
//     a name that nobody else uses, and is renamed when it is there.
//   - When a namespace ends, the kernel deletes what was made by software, and moves the
//     interfaces of hardware back to the first namespace by itself, with the name that they
//     had in the pod, or dev%d if that is taken. So an interface is found again by what a
//     pod cannot change: the device that it is of.
//   - Most of what a pod has set on it stays on it: flags, sizes, offloads, programs of eBPF. So all of
//     that is given back too, or removed.
//
// Nothing is done twice: whoever calls again finds done what is done.
//
// It needs CAP_NET_ADMIN, and CAP_SYS_ADMIN to enter a namespace.
package podnet
