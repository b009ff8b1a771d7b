// Package watch tells when it is time to look at the host's RDMA devices again, and at
// which of them.
//
// What the kernel says is not used as data: an event only names what to read anew, so
// a lost or misread event cannot leave a wrong picture for longer than until the next
// look at everything. [Start] listens to
//
//   - kobject uevents (lib/kobject_uevent.c): HCAs and their nodes, network interfaces,
//     PCI functions and auxiliary devices that come, go, and get names and drivers;
//   - rtnetlink: links of interfaces that go down and up, and their addresses. The state
//     of a RoCE or iWARP port follows its interface;
//   - RDMA netlink notifications, from Linux 6.12: ports that get other interfaces, as
//     when two become a bond.
//
// Only relevant events wake anybody: those of HCAs and their nodes, of what the last
// picture was made of (see [Watcher.Follow]), and of hardware that could become part of
// the next one. The interface of a container wakes nobody. An event is judged by its
// own text, never by a look at sysfs.
//
// Events come in bursts: a driver that loads makes a hundred. A burst becomes one
// [Signal] with the names of all. A single event is passed on after a few milliseconds;
// while events keep coming the wait for a quiet moment grows, up to a second. A socket
// that overflows (ENOBUFS) or fails is a signal to look at everything, since something
// was missed, and a failed one is opened again. What the kernel does in the background
// after an event, such as the GIDs of an address, is found by a second signal with the
// same names, a second later.
//
// What raises no event: the state of an InfiniBand or EFA port, and the network
// namespace mode ("rdma system set netns"). [rdma.Scanner.Poll] looks at those.
//
// Uevents about HCAs and interfaces, and both kinds of netlink messages, are sent to
// the network namespace that the device belongs to, so a watcher runs in the host's.
package watch
