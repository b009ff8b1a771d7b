// Package watch reports when to read the host's RDMA devices again, and which of them to read.
//
// The package does not use the content of an event as data. An event only names the devices to read again. So a lost or
// misread event causes a wrong snapshot only until the next read of everything. [Start] listens to
//
//   - kobject uevents (lib/kobject_uevent.c): HCAs and their nodes, network interfaces, PCI functions and auxiliary
//     devices that appear, disappear, or get a name or a driver;
//   - rtnetlink: network interfaces that go down or up, and their addresses. The state of a RoCE or iWARP port follows
//     its interface;
//   - RDMA netlink notifications, from Linux 6.12 on: ports that get another interface, such as two ports that become a
//     bond.
//
// Only relevant events cause a signal. Relevant are events about HCAs and their nodes, about devices in the last
// snapshot (see [Watcher.Follow]), and about hardware that could become part of the next one. The interface of a
// container causes no signal. The package judges an event by its own text, and never reads sysfs for it.
//
// Events come in bursts: a driver that loads causes a hundred. The package merges a burst into one [Signal] with all
// names. It passes on a single event after a few milliseconds. While events continue, it waits longer for a quiet
// moment, up to one second. A socket that overflows (ENOBUFS) or fails has lost events, so the package signals a read
// of everything. It opens a failed socket again. The kernel does some work in the background after an event, such as
// making the GIDs of an address. So the package sends a second signal with the same names one second later.
//
// Some changes raise no event: the state of an InfiniBand or EFA port, and the network namespace mode ("rdma system set
// netns"). [rdma.Scanner.Poll] reads these.
//
// The kernel sends uevents about HCAs and interfaces, and both kinds of netlink messages, to the network namespace that
// the device belongs to. So a watcher must run in the host's network namespace.
package watch
