// Package watch tells when it is time to look at the host's RDMA devices again.
//
// The kernel announces devices that come and go by kobject uevents, datagrams on a
// netlink socket (lib/kobject_uevent.c). What they say is not used as data: an
// event only triggers a look at the whole host, which is cheap, so a lost or
// misread event cannot leave a wrong picture. Only events about RDMA devices
// count; a network interface of a container wakes nobody.
//
// Events come in bursts: a driver that loads makes a hundred. A burst becomes one
// signal, sent when it has been quiet for a moment, and at the latest after a
// second. A socket that overflows (ENOBUFS) or fails is a signal too, since
// something was missed, and a failed one is opened again.
//
// Uevents about HCAs are sent to the network namespace that an HCA belongs to, so a
// watcher runs in the host's.
package watch
