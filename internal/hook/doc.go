// Package hook is the logic of rdma-hook, the OCI createRuntime hook that
// raises RLIMIT_MEMLOCK of a container's init process, and limits what the container
// may use of an RDMA device.
//
// RDMA pins the memory it works on, and the kernel compares what a process has
// pinned with the soft RLIMIT_MEMLOCK of that process. Containers inherit the
// limit of the daemon that starts them, 8 MiB on most hosts and 64 KiB on older
// ones, which is too little for most programs that use RDMA. CDI has no field
// for resource limits and CAP_IPC_LOCK has no effect for a user other than root
// in Kubernetes, so the limit itself is raised, from outside and before the
// program starts: limits survive fork and execve.
//
// An HCA has a bounded number of contexts and objects, and one container could use
// them all up. The kernel's rdma controller limits them per cgroup, but neither CDI
// nor Kubernetes has a field for it; the runtime does not know the controller's file
// either, or leaves it as it is. So the hook writes rdma.max of the container's cgroup.
//
// The parts, each a function of what it is given:
//
//	ParseOptions  the command line; unknown flags are warnings
//	ReadState     the OCI state from a file descriptor as it arrives, bounded in time and size
//	Raise         the decision: limits now, limit wanted, what is permitted
//	SetLimits     the container's cgroup, and its limits on RDMA devices
//	WriteReport   the result as a JSON file, for the driver to read
//	Run           all of it, in the order a container runtime needs
//
// # Start-up cost
//
// The hook runs in every start of a container that has an RDMA device, so the
// start-up of the whole process counts. The packages that may be linked are pinned by a
// test in cmd/rdma-hook, which also holds the benchmark.
package hook
