package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kinds of findings, with their looks.
var (
	uverbsModule = catalogue.Kind("uverbs-module", "/sys/class/infiniband_verbs")
	rdmaCMModule = catalogue.Kind("rdma-cm-module", "/sys/class/misc")
	umadModule   = catalogue.Kind("umad-module", "/sys/class/infiniband_mad")
	modulesOK    = catalogue.Kind("modules-ok",
		"/sys/class/infiniband_verbs", "/sys/class/misc", "/sys/class/infiniband_mad")
	hcaUnreadable     = catalogue.Kind("hca-unreadable", classInfiniband)
	hcaUnusable       = catalogue.Kind("hca-unusable", "/sys/class/infiniband_verbs")
	vpdUnreadable     = catalogue.Kind("vpd-unreadable", classInfiniband)
	netnsExclusive    = catalogue.Kind("netns-exclusive", netnsMode)
	netnsOK           = catalogue.Kind("netns-ok", netnsMode)
	rdmaCgroupMissing = catalogue.Kind("rdma-cgroup-missing", "/sys/fs/cgroup")
	rdmaCgroupOK      = catalogue.Kind("rdma-cgroup-ok", "/sys/fs/cgroup")
)

// checkModules checks the kernel's interfaces to user space. It looks for their directories in sysfs, because a module
// may be built in.
func checkModules(f *facts, out *findings) {
	if len(f.snap.HCAs) == 0 {
		return
	}
	if f.host.sysLacks("class/infiniband_verbs") {
		out.add(f.modules.loading("ib_uverbs", uverbsModule.Found(finding.Error, "the module ib_uverbs is not loaded").
			Because("without it no HCA has a uverbs node, so no program can use an HCA")))
	}
	if f.snap.RDMACM == nil && f.host.sysLacks("class/misc/rdma_cm") { // else checkDevices says what cannot be read
		out.add(f.modules.noCM(f.snap))
	}
	if f.host.sysLacks("class/infiniband_mad") && slices.ContainsFunc(f.snap.HCAs, hasMADs) {
		out.add(f.modules.loading("ib_umad", umadModule.Found(finding.Info, "the module ib_umad is not loaded").
			Because("fabric tools (ibnetdiscover, perfquery, opensm) need it on the host; applications do not")))
	}
	if !out.troubled() {
		out.add(modulesOK.Found(finding.OK, "the modules that containers need are loaded"))
	}
}

func (m *modules) noCM(snap *rdma.Snapshot) finding.Finding {
	severity, reason := finding.Warning, "programs that connect by IP address (librdmacm: rping, perftest -R, "+
		"libfabric) fail; others, such as NCCL and UCX, do without"
	if slices.ContainsFunc(snap.HCAs, func(h rdma.HCA) bool { return h.Protocol == rdma.ProtocolIWARP }) {
		severity, reason = finding.Error, "iWARP has no other way to connect"
	} else if !needsCM(snap) {
		severity, reason = finding.Info, "programs do not need it for EFA"
	}
	return m.loading("rdma_ucm", rdmaCMModule.Found(severity, "the module rdma_ucm is not loaded").
		Because("without it there is no /dev/infiniband/rdma_cm: %s", reason))
}

// needsCM reports whether programs use rdma_cm for any device of the host.
func needsCM(snap *rdma.Snapshot) bool {
	return slices.ContainsFunc(snap.HCAs, func(h rdma.HCA) bool { return h.Protocol != rdma.ProtocolEFA })
}

// loading adds the commands that load a module of RDMA, or what to do where the kernel comes without it.
func (m *modules) loading(module string, f finding.Finding) finding.Finding {
	if m.unknown != nil || m.rdma[module] {
		return f.Do(load(module)...)
	}
	f.Message += ". This kernel comes without it: some distributions have it in a package of its own"
	return f.Do("apt-get install linux-modules-extra-$(uname -r) || dnf install kernel-modules-extra").
		See("find /lib/modules/$(uname -r) -name '" + module + ".ko*'")
}

// load returns the commands that load a module now and at each boot.
func load(module string) []string {
	return []string{"modprobe " + module,
		"mkdir -p /etc/modules-load.d && echo " + module + " > /etc/modules-load.d/" + module + ".conf"}
}

// hasMADs reports whether the ports of an HCA process management datagrams.
func hasMADs(h rdma.HCA) bool {
	return h.Protocol == rdma.ProtocolIB || h.Protocol == rdma.ProtocolRoCE || h.Protocol == rdma.ProtocolOPA
}

// checkDevices reports devices that cannot be read or used.
func checkDevices(f *facts, out *findings) {
	var unreadable, unusable, readErrors, useErrors []string
	for _, p := range f.snap.Problems {
		unreadable = append(unreadable, cmp.Or(p.IBDev, "host"))
		readErrors = append(readErrors, p.Error())
	}
	for i := range f.snap.HCAs {
		if err := f.snap.HCAs[i].Unusable(); err != nil && f.host.sysHas("class/infiniband_verbs") {
			unusable = append(unusable, f.snap.HCAs[i].IBDev)
			useErrors = append(useErrors, err.Error())
		}
	}
	if len(unreadable) > 0 {
		unreadable = unique(unreadable)
		count := text.Count(len(unreadable), "RDMA device")
		out.add(hcaUnreadable.Found(finding.Warning, "attributes of "+count+" cannot be read").
			About(unreadable...).Because("%s", text.Some(readErrors, "; ")).
			See("dmesg | grep -iE 'infiniband|rdma|mlx|firmware'"))
	}
	out.add(foundIn(unusable, hcaUnusable, finding.Info, "RDMA device", " that no container can use").
		Because("%s", text.Some(useErrors, "; ")).
		See("cdi-gen list"))
	out.add(foundIn(functionsOf(f.snap.VPDProblems), vpdUnreadable, finding.Info, "PCI function",
		" whose VPD cannot be read").
		Because("only VPD says whether a function manages NVSwitches, and where a card with Data Direct moves data. So this "+
			"is not known: these count as network HCAs at their own place. Exclude managers by name. %s",
			text.Some(f.snap.VPDProblems, "; ")).
		See("dmesg | grep -i vpd"))
}

// functionsOf returns the PCI addresses before the problems of a snapshot with VPD.
func functionsOf(problems []string) []string {
	var out []string
	for _, p := range problems {
		address, _, _ := strings.Cut(p, ": ")
		out = append(out, address)
	}
	return out
}

// checkNetns checks whether all network namespaces share the RDMA devices.
func checkNetns(f *facts, out *findings) {
	const shared = "RDMA devices are shared by all network namespaces"
	switch {
	case f.snap.NetnsMode == rdma.NetnsExclusive:
		out.add(netnsExclusive.Found(finding.Error, "RDMA devices are bound to network namespaces (exclusive mode)").
			Because("a container with its own network gets the node but cannot open it: the kernel returns EPERM outside the " +
				"device's namespace. The fix takes effect with the next boot: the mode cannot change while other namespaces exist").
			Do("mkdir -p /etc/modprobe.d && echo 'options ib_core netns_mode=1' > /etc/modprobe.d/rdma-netns.conf"))
	case len(f.snap.HCAs) == 0:
	case f.snap.NetnsMode == rdma.NetnsUnknown && before52(f.host.kernelRelease()):
		out.add(netnsOK.Found(finding.OK, shared+" (always before kernel 5.2)"))
	case f.snap.NetnsMode == rdma.NetnsUnknown:
		f.host.unseen[netnsMode] = errors.New("the kernel does not report it in /sys/module/ib_core/parameters/netns_mode")
	default:
		out.add(netnsOK.Found(finding.OK, shared))
	}
}

// before52 reports whether a kernel is known to be older than 5.2, which has no network namespace mode (commit
// a56bc45bb9f4 of Linux).
func before52(release string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return n == 2 && (major < 5 || major == 5 && minor < 2)
}

// Files of the rdma controller in cgroup v2, in cgroup v2 beside v1, and in cgroup v1.
const (
	cgroupV2     = "fs/cgroup/cgroup.controllers"
	cgroupHybrid = "fs/cgroup/unified/cgroup.controllers"
	cgroupV1     = "fs/cgroup/rdma"
)

// checkRDMACgroup checks for the controller that limits handles and objects.
func checkRDMACgroup(f *facts, out *findings) {
	controllers := strings.Fields(f.host.sysRead(cgroupV2) + " " + f.host.sysRead(cgroupHybrid))
	switch {
	case slices.Contains(controllers, "rdma"):
		out.add(rdmaCgroupOK.Found(finding.OK, "the rdma cgroup controller is available (cgroup v2)"))
	case f.host.sysHas(cgroupV1):
		out.add(rdmaCgroupOK.Found(finding.OK, "the rdma cgroup controller is available (cgroup v1)"))
	case f.host.unseen.has("/sys/fs/cgroup"):
	case len(controllers) == 0 && !f.host.sysHas("fs/cgroup/cpu") && !f.host.sysHas("fs/cgroup/memory"):
		// no cgroup file system can be seen here
	default:
		out.add(rdmaCgroupMissing.Found(finding.Info, "the rdma cgroup controller is not available").
			Because("limits on the handles and objects of a container have no effect; nothing else depends on it").
			See("grep CGROUP_RDMA /boot/config-$(uname -r); cat /proc/cgroups"))
	}
}
