// Package hook is the logic of rdma-hook, an OCI createRuntime hook. The hook raises RLIMIT_MEMLOCK of a container's
// init process, and limits how much of an RDMA device the container may use.
//
// RDMA pins memory, and the kernel compares the pinned memory of a process with its soft RLIMIT_MEMLOCK. Containers
// inherit the limit of the daemon that starts them: 8 MiB on most hosts, 64 KiB on older ones. That is too little for
// most RDMA programs. CDI has no field for resource limits, and CAP_IPC_LOCK has no effect in Kubernetes for users
// other than root. So the hook raises the limit from outside, before the program starts: limits survive fork and
// execve.
//
// An HCA has a bounded number of contexts and objects, and one container could use all of them. The kernel's rdma
// controller limits them per cgroup, but neither CDI nor Kubernetes has a field for these limits, and runtimes do not
// set them. So the hook writes rdma.max of the container's cgroup.
//
// The parts:
//
//   - [args.Parse] parses the command line; unknown flags are warnings
//   - [ReadState] reads the OCI state from standard input, bounded in time and size
//   - [Raise] compares present, requested and permitted limits of locked memory, and raises the limit
//   - [SetLimits] limits the use of RDMA devices in the container's cgroup
//   - [WriteReport] writes the result, a [record.Report], as a JSON file for the driver
//   - [Run] does all of it in the order that a container runtime needs
//
// # Start-up cost
//
// The hook runs in every start of a container with an RDMA device, so its own start must be fast. A test in
// cmd/rdma-hook pins the packages that it may link; the benchmark is there too.
package hook
