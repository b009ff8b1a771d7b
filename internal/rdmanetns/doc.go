// Package rdmanetns moves RDMA devices between network namespaces, on a host whose
// RDMA subsystem is in exclusive network namespace mode (rdma-system(8)): there a device
// belongs to one namespace, and only processes of that namespace can open it.
//
// What the kernel does when a device moves shapes everything here:
//
//   - The request must come from a thread that is in the namespace that owns the device,
//     not just from a socket of it: the kernel compares the sender's namespace
//     (ib_device_set_netns_put, rdma_dev_change_netns). So each operation runs on a thread
//     of its own, which enters the namespace and ends with the operation; a thread that
//     came back might come back wrong.
//   - All clients of the device go and come again: uverbs and umad nodes get new numbers,
//     and whoever has the device open loses it. So a device is moved only if it is not yet
//     where it should be.
//   - A driver without disassociate_ucontext cannot be moved (EFA, soft-RoCE, soft-iWARP).
//     [Movable] finds out without moving anything.
//   - When a namespace ends, the kernel moves its devices back to the first namespace by
//     itself, some time after the last process of it has gone.
//
// A name of an RDMA device is unique among all namespaces, so a device cannot meet another
// of its name where it goes, and keeps its own.
//
// It needs CAP_NET_ADMIN for the requests and CAP_SYS_ADMIN to enter a namespace.
package rdmanetns
