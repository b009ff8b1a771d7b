package doctor

import (
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// checkNetns looks at how RDMA devices and network namespaces go together.
func checkNetns(f *facts) []Finding {
	switch {
	case f.snap.NetnsMode == rdma.NetnsExclusive:
		return []Finding{found(NetnsExcl, Error, "RDMA devices are bound to network namespaces (exclusive mode)").
			because("a container with a network of its own gets the node and cannot open it: the kernel answers EPERM outside of the namespace that the device belongs to. The mode cannot be changed while other namespaces exist, hence the reboot").
			fix("mkdir -p /etc/modprobe.d && echo 'options ib_core netns_mode=1' > /etc/modprobe.d/rdma-netns.conf && reboot")}
	case len(f.snap.HCAs) == 0:
		return nil
	case f.snap.NetnsMode == rdma.NetnsUnknown:
		return []Finding{found(NetnsOK, OK, "RDMA devices are shared by all network namespaces (the kernel does not say; before 5.2 they always are)")}
	}
	return []Finding{found(NetnsOK, OK, "RDMA devices are shared by all network namespaces")}
}

// Where the rdma controller shows, cgroup v2 (also beside v1) and v1.
const (
	cgroupV2     = "fs/cgroup/cgroup.controllers"
	cgroupHybrid = "fs/cgroup/unified/cgroup.controllers"
	cgroupV1     = "fs/cgroup/rdma"
)

// checkRDMACgroup looks for the controller that limits handles and objects.
func checkRDMACgroup(f *facts) []Finding {
	if !f.sysHas("fs/cgroup") {
		return nil
	}
	for _, name := range []string{cgroupV2, cgroupHybrid} {
		if slices.Contains(strings.Fields(f.sysRead(name)), "rdma") {
			return []Finding{found(RDMACgroupOK, OK, "the rdma cgroup controller is there (cgroup v2)")}
		}
	}
	if f.sysHas(cgroupV1) {
		return []Finding{found(RDMACgroupOK, OK, "the rdma cgroup controller is there (cgroup v1)")}
	}
	return []Finding{found(NoRDMACgroup, Info, "the rdma cgroup controller is not there").
		because("limits on the handles and objects of a container have no effect; nothing else depends on it").
		fix("grep CGROUP_RDMA /boot/config-$(uname -r); cat /proc/cgroups")}
}
