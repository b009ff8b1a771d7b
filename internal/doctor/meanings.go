package doctor

import (
	"fmt"
	"strings"
)

// Entry describes a kind of finding.
type Entry struct {
	ID         ID
	Group      Group
	Severities []Severity // that it can have
	Meaning    string
	Remedy     string
}

// Catalog lists every kind of finding, in the order of a report; docs/doctor.md
// has it as a table.
var Catalog = []Entry{
	{DriverMissing, GroupKernel, []Severity{Error, Warning}, "PCI functions that can do RDMA are there, and none of that vendor is an RDMA device. An error for cards that can do nothing else", "load the RDMA driver of the card"},
	{NoHCA, GroupKernel, []Severity{Warning}, "the host has no RDMA device, and no PCI function that is known to be one", "for a try without hardware, make a soft-RoCE or soft-iWARP device on a network interface"},
	{UverbsModule, GroupKernel, []Severity{Error}, "RDMA devices are there, but `ib_uverbs` is not loaded: no program can open one", "`modprobe ib_uverbs`"},
	{CMModule, GroupKernel, []Severity{Error, Warning, Info}, "`rdma_ucm` is not loaded: `/dev/infiniband/rdma_cm` is missing. iWARP cannot do without it (error), EFA has no use for it (note); other programs need it when they connect by IP address", "`modprobe rdma_ucm`"},
	{NetnsExcl, GroupKernel, []Severity{Error}, "RDMA devices are bound to network namespaces: a container with a network of its own gets the node and cannot open it (EPERM)", "`options ib_core netns_mode=1` in `/etc/modprobe.d` and a reboot"},
	{HCAUnreadable, GroupKernel, []Severity{Warning}, "the kernel or the firmware answers some reads of sysfs with an error; what could not be read is left out of specs", "look into the kernel log; reset or reload the driver of the device"},
	{HCAUnusable, GroupKernel, []Severity{Info}, "an RDMA device that no container can be given: a management-only device, a representor, or one whose driver has no user-space interface", "nothing, unless the device should be usable; then look into the kernel log"},
	{UmadModule, GroupKernel, []Severity{Info}, "`ib_umad` is not loaded: fabric tools such as `ibnetdiscover` do not work. Applications do not need it", "`modprobe ib_umad` where fabric tools are wanted"},
	{NoRDMACgroup, GroupKernel, []Severity{Info}, "the kernel has no rdma cgroup controller, or it is not mounted: limits on handles and objects have no effect", "a kernel with `CONFIG_CGROUP_RDMA`"},
	{ModulesOK, GroupKernel, []Severity{OK}, "the modules that containers need are loaded", ""},
	{NetnsOK, GroupKernel, []Severity{OK}, "RDMA devices are shared by all network namespaces", ""},
	{RDMACgroupOK, GroupKernel, []Severity{OK}, "the rdma cgroup controller is there", ""},

	{NodeMissing, GroupNodes, []Severity{Error, Warning}, "the kernel has a node that is not in `/dev/infiniband`. libibverbs leaves the HCA out without a word, and a container that asks for it does not start. A warning for umad and issm", "let udev make the nodes anew"},
	{NodeWrong, GroupNodes, []Severity{Error}, "a node has another device number than the kernel says, or is no character device: a container gets another device, or none", "remove it and let udev make it anew"},
	{NodeMode, GroupNodes, []Severity{Warning}, "uverbs or rdma_cm is not readable and writable for everyone: rootless containers and users other than root cannot open it", "`chmod 0666`, and a udev rule that keeps it"},
	{NodeStale, GroupNodes, []Severity{Warning}, "a node in `/dev/infiniband` belongs to no device of the kernel", "remove it"},
	{NodesOK, GroupNodes, []Severity{OK}, "every node of the kernel is there, with its number and mode", ""},

	{NoActivePort, GroupPorts, []Severity{Error}, "no port of the host is ACTIVE", "see port-down and port-init"},
	{PortDown, GroupPorts, []Severity{Warning}, "a port is down", "set the link up, look at cable and switch; the reason names the physical state"},
	{PortInit, GroupPorts, []Severity{Warning}, "an InfiniBand port has its link, and no subnet manager has brought it up", "start a subnet manager, or look why it does not reach the port"},
	{GUIDZero, GroupPorts, []Severity{Warning}, "an HCA has no node GUID, as a VF that nobody configured: an InfiniBand port of it stays down, and rdma_cm fails", "set node and port GUID through the PF, and bind the VF again"},
	{RoCENoGID, GroupPorts, []Severity{Warning}, "an ACTIVE RoCE port has no RoCE v2 address (GID) beyond the link-local one: it reaches nothing outside of its link, and NCCL and UCX leave it out", "give its network interface an IP address"},
	{PortsOK, GroupPorts, []Severity{OK}, "all ports are ACTIVE", ""},
	{RoCEGIDsOK, GroupPorts, []Severity{OK}, "all ACTIVE RoCE ports have a routable RoCE v2 address", ""},

	{MemlockLow, GroupMemlock, []Severity{Warning}, "a container inherits a small limit of locked memory, and no hook raises it: registering memory fails with ENOMEM, and NCCL falls back to TCP", "write the spec with the hook, or raise the limit of the daemon"},
	{MemlockClamped, GroupMemlock, []Severity{Warning}, "the hook runs without the right to raise the hard limit (CAP_SYS_RESOURCE on the host), as under rootless podman, or has said that it could not: containers get the hard limit at most", "raise the hard limit of the user or the service"},
	{MemlockRestart, GroupMemlock, []Severity{Warning}, "the unit file of a daemon sets a higher limit than the running daemon has", "restart the daemon"},
	{MemlockConfigured, GroupMemlock, []Severity{Warning}, "a runtime is configured with a small limit for all containers. Under runc it wins over the hook", "remove the setting or raise it"},
	{MemlockByHook, GroupMemlock, []Severity{Info}, "the limit is small, and the hook in the spec raises it; exec sessions keep the small one", "raise the limit of the daemon where exec sessions need it"},
	{MemlockOK, GroupMemlock, []Severity{OK}, "containers inherit a limit that does not bind", ""},

	{HookMissing, GroupHook, []Severity{Error}, "a spec names a hook that is not there: every container that asks for one of its devices fails to start", "install the hook, or write the spec anew"},
	{HookNotExec, GroupHook, []Severity{Error}, "the hook is no regular file, or not executable", "`chmod 0755`"},
	{HookNoexec, GroupHook, []Severity{Error}, "the hook lies on a file system that is mounted noexec", "install it elsewhere and write the spec anew"},
	{HookReplaceable, GroupHook, []Severity{Error}, "others than root own the hook or a directory on the way to it, or can write to one: they can replace the program that the runtime runs as root", "move the hook to a directory of root's, or correct owner and mode"},
	{HookArch, GroupHook, []Severity{Error}, "the hook is built for another processor", "install the package for this one"},
	{HookDynamic, GroupHook, []Severity{Warning}, "the hook needs shared libraries of the host: it breaks when they change, and starts slower", "install the static build"},
	{HookAbsent, GroupHook, []Severity{Info}, "a spec has no hook: its containers keep the limit of locked memory that they inherit", "write the spec without `--no-hook`, or raise the limit elsewhere"},
	{HookOK, GroupHook, []Severity{OK}, "the hooks of all specs are there, executable and static", ""},

	{SpecInvalid, GroupSpecs, []Severity{Error, Warning}, "the CDI library refuses the file, so its devices do not exist. A warning for files that are not about RDMA", "see the reason; write the spec anew"},
	{SpecTwins, GroupSpecs, []Severity{Error}, "one directory has the same spec as .json and as .yaml: runtimes refuse the devices of both", "remove one"},
	{SpecConflict, GroupSpecs, []Severity{Error, Warning}, "two files of one directory define the same device: runtimes refuse both. A warning for devices that are not RDMA devices", "remove the device from one of the files"},
	{SpecStale, GroupSpecs, []Severity{Error}, "a spec names a node that the host does not have: a container that asks for it does not start", "write the spec anew"},
	{SpecWrongDevice, GroupSpecs, []Severity{Error}, "a spec pins a device number that is another device, or none, now: runtimes inject it unchecked", "write the spec with `cdi-gen`, which pins no numbers"},
	{SpecNone, GroupSpecs, []Severity{Warning}, "the host has RDMA devices, and no CDI spec gives them", "`cdi-gen generate --output /etc/cdi`"},
	{SpecIncomplete, GroupSpecs, []Severity{Warning}, "RDMA devices of the host, or `rdma_cm`, are in no spec", "write the spec anew"},
	{SpecExtension, GroupSpecs, []Severity{Warning}, "runtimes read only files that end in .json or .yaml", "rename the file"},
	{SpecMode, GroupSpecs, []Severity{Warning}, "a spec is not readable for everyone: for rootless podman it does not exist", "`chmod 0644`"},
	{SpecShadowed, GroupSpecs, []Severity{Info}, "both directories define the same device, and the one in /var/run/cdi wins", "remove the spec that is not wanted"},
	{SpecsOK, GroupSpecs, []Severity{OK}, "the specs fit the host", ""},

	{MADNodeOpen, GroupPrivilege, []Severity{Warning}, "umad or issm is open to others than root: any user of the host, and rootless containers, can reconfigure the fabric", "`chmod 0600`, and the udev rule that opens it removed"},
	{SpecGivesMAD, GroupPrivilege, []Severity{Warning, Info}, "a spec hands out umad or issm, with which a container can reconfigure the fabric. A note where the device is named for it (`-mad`, `-sm`) or the spec is that of an approved claim", "write the spec without `mad` and `sm`"},
	{SpecGivesAll, GroupPrivilege, []Severity{Warning}, "a spec hands out all of `/dev/infiniband` or `/dev`, the fabric's management nodes included", "name single nodes"},
	{PrivilegeOK, GroupPrivilege, []Severity{OK}, "the management nodes are closed, and no spec hands them out", ""},

	{RuntimeTooOld, GroupRuntimes, []Severity{Error}, "a runtime cannot read a spec: it needs a higher CDI version", "`cdi-gen generate --target RUNTIME`; the reason names the field"},
	{RuntimeDirs, GroupRuntimes, []Severity{Warning}, "a runtime does not look into the directory of a spec", "write the spec into a directory that it reads"},
	{RuntimeNoCDI, GroupRuntimes, []Severity{Warning}, "a runtime is too old for CDI", "upgrade it"},
	{RuntimeCDIOff, GroupRuntimes, []Severity{Warning}, "a runtime can read CDI specs, and does not, as it is configured: containerd 1.7 drops requested devices without a word", "turn CDI on and restart it"},
	{RuntimeUnknown, GroupRuntimes, []Severity{Info}, "a runtime whose version is not known", "see runtimes.md for the known ones"},
	{RuntimeNone, GroupRuntimes, []Severity{Info}, "no container runtime was found", "install one"},
	{RuntimeOK, GroupRuntimes, []Severity{OK}, "a runtime reads all RDMA specs", ""},

	{RDMAMapDiffers, GroupRDMAMap, []Severity{Warning}, "the library rdmamap, by which other device plugins go, finds other devices or nodes than we do", "report it, with the output of `cdi-gen list -o json`"},
	{RDMAMapAgrees, GroupRDMAMap, []Severity{OK}, "rdmamap finds the same devices and nodes", ""},

	{GPUPeerMissing, GroupGPU, []Severity{Warning}, "there are NVIDIA GPUs and HCAs, and neither `nvidia_peermem` nor the open kernel module, which exports dma-buf: GPUDirect RDMA does not work", "`modprobe nvidia_peermem`"},
	{GPUPeerOK, GroupGPU, []Severity{OK}, "HCAs can reach the memory of the GPUs", ""},
}

// describe finds the entry of an ID.
func describe(id ID) Entry {
	if i := position(id); i < len(Catalog) {
		return Catalog[i]
	}
	panic(fmt.Sprintf("doctor: finding %q is not in the catalogue", id))
}

// Markdown is the catalogue for people, as docs/doctor.md has it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| finding | severity | meaning | remedy |\n|---|---|---|---|\n")
	for _, e := range Catalog {
		words := make([]string, len(e.Severities))
		for i, s := range e.Severities {
			words[i] = string(s)
		}
		remedy := e.Remedy
		if remedy == "" {
			remedy = "-"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.ID, strings.Join(words, ", "), e.Meaning, remedy)
	}
	return b.String()
}
