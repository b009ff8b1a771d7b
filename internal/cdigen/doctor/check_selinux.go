package doctor

import (
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimes"
)

// selinuxDevices is the kind of the finding, with its look.
var selinuxDevices = catalogue.Kind("selinux-devices", "/sys/fs/selinux")

// checkSELinux finds a policy that keeps containers from devices that are bound into them. A runtime that may not
// create nodes binds those of the host: rootless podman, and every runtime in a user namespace. They keep the type of
// the host, infiniband_device_t, which container domains may open only with the boolean (container.te of
// container-selinux; no test host of ours enforces a policy).
func checkSELinux(f *facts, out *findings) {
	const boolean = "container_use_devices"
	value := strings.Fields(f.host.sysRead("fs/selinux/booleans/" + boolean)) // now, and after a commit
	if f.host.sysRead("fs/selinux/enforce") != "1" || len(value) == 0 || value[0] != "0" || len(f.snap.Usable()) == 0 {
		return
	}
	if f.host.Local && !installed(f.engines, runtimes.Podman) && !installed(f.engines, runtimes.CRIO) {
		return
	}
	out.add(selinuxDevices.Found(finding.Warning, "SELinux denies RDMA devices to rootless containers").
		About("/sys/fs/selinux/booleans/" + boolean).
		Because("rootless podman, and pods with a user namespace, get the node of the host with its SELinux type; " +
			"opening it fails with EACCES while the boolean is off").
		Do("setsebool -P " + boolean + " on"))
}
