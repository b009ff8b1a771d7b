package doctor

import (
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// checkNetns checks whether all network namespaces share the RDMA devices.
func checkNetns(f *facts, out *findings) {
	const shared = "RDMA devices are shared by all network namespaces"
	switch {
	case f.snap.NetnsMode == rdma.NetnsExclusive:
		out.add(found("netns-exclusive", Error, "RDMA devices are bound to network namespaces (exclusive mode)").
			because("a container with its own network gets the node but cannot open it: the kernel returns EPERM outside the " +
				"device's namespace. The fix reboots, because the mode cannot change while other namespaces exist").
			fix("mkdir -p /etc/modprobe.d && echo 'options ib_core netns_mode=1' > /etc/modprobe.d/rdma-netns.conf && reboot"))
	case len(f.snap.HCAs) == 0:
	case f.snap.NetnsMode == rdma.NetnsUnknown:
		out.add(found("netns-ok", OK, shared+" (the kernel does not report the mode; before 5.2 they always are)"))
	default:
		out.add(found("netns-ok", OK, shared))
	}
}

// Files of the rdma controller in cgroup v2, in cgroup v2 beside v1, and in cgroup v1.
const (
	cgroupV2     = "fs/cgroup/cgroup.controllers"
	cgroupHybrid = "fs/cgroup/unified/cgroup.controllers"
	cgroupV1     = "fs/cgroup/rdma"
)

// checkRDMACgroup checks for the controller that limits handles and objects.
func checkRDMACgroup(f *facts, out *findings) {
	controllers := strings.Fields(f.sysRead(cgroupV2) + " " + f.sysRead(cgroupHybrid))
	switch {
	case !f.sysHas("fs/cgroup"):
	case slices.Contains(controllers, "rdma"):
		out.add(found("rdma-cgroup-ok", OK, "the rdma cgroup controller is available (cgroup v2)"))
	case f.sysHas(cgroupV1):
		out.add(found("rdma-cgroup-ok", OK, "the rdma cgroup controller is available (cgroup v1)"))
	default:
		out.add(found("rdma-cgroup-missing", Info, "the rdma cgroup controller is not available").
			because("limits on the handles and objects of a container have no effect; nothing else depends on it").
			fix("grep CGROUP_RDMA /boot/config-$(uname -r); cat /proc/cgroups"))
	}
}
