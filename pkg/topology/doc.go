// Package topology answers one question: how far is each HCA of this host from
// each of its GPUs?
//
// [Discover] takes a sysfs tree, as a file system value, and the [rdma.Snapshot]
// of the same tree, and returns a [Topology]: the HCAs and accelerators, the
// PCIe tree above them, and by [Between] the distance of any two. It is a pure
// function: the same tree gives the same bytes from every writer.
//
// # The words
//
// An accelerator is a PCI function of class 03 (display and 3D controllers) or 12
// (processing accelerators), of any vendor. The display adapters of management
// processors and virtual machines are left out. A GPU is numbered in the order of
// PCI addresses, as nvidia-smi numbers it.
//
// A root is a PCIe root complex, in sysfs the directory pci<domain>:<bus>, also
// called host bridge. A switch is named by its upstream port. Root ports and the
// downstream ports of switches are folded into what is below them.
//
// Virtual functions and subfunctions sit where their physical function sits, so
// they are counted there and not drawn.
//
// # Distances
//
// The words are those of nvidia-smi topo -m and NCCL_P2P_LEVEL, nearest first:
//
//	X     the same device
//	PIX   at most one PCIe bridge in between: one switch, or one card
//	PXB   several PCIe bridges, and no host bridge
//	PHB   a PCIe host bridge
//	NODE  two host bridges of one NUMA node
//	SYS   two NUMA nodes
//	?     two host bridges, and the kernel does not say the NUMA node of one: NODE
//	      or SYS. Virtual machines often hide it.
//
// A switch counts as one bridge, though sysfs shows its upstream and downstream
// ports as a bridge each: NVML has PIX as "a single PCIe switch", and NCCL as "on the
// same PCI switch".
//
// The sources are the legend of nvidia-smi topo -m, nvmlGpuTopologyLevel_t in nvml.h
// (https://docs.nvidia.com/deploy/nvml-api/), and NCCL_P2P_LEVEL in
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html.
package topology
