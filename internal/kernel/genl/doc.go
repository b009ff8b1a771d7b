// Package genl asks the kernel by netlink what no file says of an HCA: the health of its firmware (devlink), the errors
// of its Ethernet link, whether a cable is there (ethtool), and whether the interface of a software HCA is in the
// network namespace of this process (RDMA netlink). It is a leaf: netlink.
//
// Every question is one that the kernel answers to anybody: it needs no capability. The questions that read a card's
// state in depth (diagnose, dump) need CAP_NET_ADMIN, and are not asked.
package genl
