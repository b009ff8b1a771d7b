// Package topology answers one question: how far is each HCA of this host from
// each of its GPUs?
//
// [Discover] takes a sysfs tree, as a file system value, and the [rdma.Snapshot]
// of the same tree, and returns a [Topology]: the HCAs and accelerators, the
// PCIe tree above them, and by [Between] the distance of any two. It is a pure
// function: the same tree gives the same bytes from every writer.
//
// # Terms
//
// An accelerator is a PCI function of class 03 (display and 3D controllers) or 12
// (processing accelerators), of any vendor. The package omits the display adapters of management
// processors and virtual machines. It numbers GPUs in the order of PCI addresses, as
// nvidia-smi does.
//
// A root is a PCIe root complex, in sysfs the directory pci<domain>:<bus>, also
// called host bridge. A switch is named by its upstream port. The tree omits root ports and the
// downstream ports of switches.
//
// Virtual functions and subfunctions have the position of their physical function. The picture
// shows only their number.
//
// # Distances
//
// The distances are those of nvidia-smi topo -m and NCCL_P2P_LEVEL, nearest first:
//
//	X     the same device
//	PIX   at most one PCIe bridge in between: one switch, or one card
//	PXB   several PCIe bridges, and no host bridge
//	PHB   a PCIe host bridge
//	NODE  two host bridges of one NUMA node
//	SYS   two NUMA nodes
//	?     two host bridges, and the kernel does not know the NUMA node of one: NODE
//	      or SYS. Virtual machines often hide it.
//
// A switch counts as one bridge, although sysfs has a bridge for its upstream port and for each
// downstream port: NVML has PIX as "a single PCIe switch", and NCCL as "on the same PCI
// switch".
//
// The sources are the legend of nvidia-smi topo -m, nvmlGpuTopologyLevel_t in nvml.h
// (https://docs.nvidia.com/deploy/nvml-api/), and NCCL_P2P_LEVEL in
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html.
package topology
