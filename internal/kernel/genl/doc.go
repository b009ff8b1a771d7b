// Package genl asks the kernel by generic netlink what no file says of a card: the health of its firmware (devlink),
// the errors of its Ethernet link, and whether a cable is there (ethtool). It is a leaf: netlink.
//
// Every question is one that the kernel answers to anybody: it needs no capability. The questions that read a card's
// state in depth (diagnose, dump) need CAP_NET_ADMIN, and are not asked.
package genl
