// Package vm runs a command in a virtual machine with a real RDMA kernel: soft-RoCE
// (rdma_rxe) and soft-iWARP (siw) devices, uverbs, umad, rdma_cm and the RDMA cgroup
// controller, all capabilities and cgroup v2, on a host that needs none of these, not
// even KVM.
//
// Each run is a cold boot of some six seconds with a throw-away disk. Directories of
// the host can be shared; a Go test binary, the checkout or a cache of programs is
// there at its own path. What the command prints comes back on standard output and
// error, and its exit status is the result.
//
// The kernel and the root file system are built once, from Debian's packages, and
// kept in the cache; see docs/dev/vm.md.
package vm
