// Package rdma answers one question: which RDMA devices does this host have?
//
// [Discover] reads a sysfs tree, given as a file system value, and returns a
// [Snapshot]: plain data, sorted by identity, the same for the same tree. The
// package does not import Kubernetes, CDI or a logger. It writes nothing, and
// leaves nothing running, but for the read of a card that does not answer.
//
// # Terms
//
// An HCA (host channel adapter) is one RDMA device as the kernel registers it:
// an entry of /sys/class/infiniband, its "ibdev" name (mlx5_0, rdmap79s0, rxe0).
// The term covers every transport: InfiniBand, RoCE, iWARP, EFA, Omni-Path.
// The kernel gives ibdev names in probe order, so a name is not an identity.
//
// A port carries traffic. Most HCAs have one, numbered 1. Its link layer
// is InfiniBand or Ethernet; its state is ACTIVE when it can carry traffic. Its
// GIDs are its addresses: on InfiniBand a subnet prefix with the port GUID, on
// RoCE made from the addresses of the port's network interface (netdev).
//
// The node GUID names the HCA, the system image GUID the board it sits on.
//
// User space reaches an HCA through character devices below /dev/infiniband:
//
//	uverbsN   the verbs interface of one HCA: queue pairs, memory registration.
//	          Every RDMA program needs it, and most need nothing else.
//	rdma_cm   the connection manager, one for the host, for programs that connect
//	          by IP address. iWARP always needs it.
//	hfi1_N    the user device of an Omni-Path HCA, in /dev, which PSM2 and OPX of MPI open instead of uverbsN.
//	umadN     management datagrams on one port. A process that opens it can reconfigure
//	          the fabric, so containers get it only when a class allows it.
//	issmN     opening it announces a subnet manager on the port.
//
// The kernel assigns the numbers N in probe order. The device majors above the
// first 32 uverbs (64 umad) are dynamic. The package reads both and assumes neither
// (drivers/infiniband/core/uverbs_main.c, user_mad.c).
//
// A PCI function is a PF (physical function), a VF (virtual function, made by
// SR-IOV, with a physfn link to its PF), or carries SFs (subfunctions: auxiliary
// devices with an SF number). A software HCA (soft-RoCE "rxe", soft-iWARP "siw")
// sits on a network interface instead.
//
// # Identity
//
// The identity of an HCA is its slot: the PCI function, the SF number, or for
// software HCAs the network interface ([Identity]). It survives a reboot and a
// driver reload, where ibdev names and uverbs numbers do not.
package rdma
