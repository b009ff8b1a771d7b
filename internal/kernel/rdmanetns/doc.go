// Package rdmanetns moves RDMA devices between network namespaces. The host's RDMA subsystem must be in exclusive
// network namespace mode (rdma-system(8)). In this mode a device belongs to one namespace, and only processes of that
// namespace can open it.
//
// The kernel's behaviour determines the design:
//
//   - The request must come from a thread in the namespace that owns the device; a socket of that namespace is not
//     enough. The kernel compares the sender's namespace (ib_device_set_netns_put, rdma_dev_change_netns). So each
//     operation runs on a thread of its own. The thread enters the namespace and ends with the operation, because
//     returning to the old namespace could fail.
//   - All clients of the device are removed and added again: uverbs and umad nodes get new numbers, and processes that
//     have the device open lose it. So the package moves a device only if it is not yet in the right namespace.
//   - A driver without disassociate_ucontext cannot be moved (EFA, soft-RoCE, soft-iWARP). [Movable] checks this
//     without moving the device.
//   - When a namespace ends, the kernel itself moves its devices back to the first namespace, some time after the last
//     process of the namespace has ended.
//
// The name of an RDMA device is unique among all namespaces. So a device always keeps its name when it moves.
//
// The package needs CAP_NET_ADMIN for the requests, and CAP_SYS_ADMIN to enter a namespace.
package rdmanetns
