package doctor

// ID names a kind of finding. It is an interface: scripts filter by it.
type ID string

// Group is the question that a finding answers.
type Group string

// The groups.
const (
	GroupKernel    Group = "kernel"
	GroupNodes     Group = "nodes"
	GroupPorts     Group = "ports"
	GroupMemlock   Group = "memlock"
	GroupHook      Group = "hook"
	GroupSpecs     Group = "specs"
	GroupPrivilege Group = "privilege"
	GroupRuntimes  Group = "runtimes"
	GroupRDMAMap   Group = "rdmamap"
	GroupGPU       Group = "gpu"
)

// The findings. What each means and what to do stands in the catalogue.
const (
	DriverMissing ID = "driver-missing"
	NoHCA         ID = "no-hca"
	UverbsModule  ID = "uverbs-module"
	CMModule      ID = "rdma-cm-module"
	NetnsExcl     ID = "netns-exclusive"
	HCAUnreadable ID = "hca-unreadable"
	HCAUnusable   ID = "hca-unusable"
	UmadModule    ID = "umad-module"
	NoRDMACgroup  ID = "rdma-cgroup-missing"
	ModulesOK     ID = "modules-ok"
	NetnsOK       ID = "netns-ok"
	RDMACgroupOK  ID = "rdma-cgroup-ok"

	NodeMissing ID = "node-missing"
	NodeWrong   ID = "node-wrong-device"
	NodeMode    ID = "node-mode"
	NodeStale   ID = "node-stale"
	NodesOK     ID = "nodes-ok"

	NoActivePort ID = "no-active-port"
	PortDown     ID = "port-down"
	PortInit     ID = "port-init"
	GUIDZero     ID = "guid-zero"
	RoCENoGID    ID = "roce-no-gid"
	PortsOK      ID = "ports-ok"
	RoCEGIDsOK   ID = "roce-gids-ok"

	MemlockLow        ID = "memlock-low"
	MemlockClamped    ID = "memlock-clamped"
	MemlockRestart    ID = "memlock-restart"
	MemlockConfigured ID = "memlock-configured"
	MemlockByHook     ID = "memlock-by-hook"
	MemlockOK         ID = "memlock-ok"

	HookMissing     ID = "hook-missing"
	HookNotExec     ID = "hook-not-executable"
	HookNoexec      ID = "hook-noexec"
	HookReplaceable ID = "hook-replaceable"
	HookArch        ID = "hook-arch"
	HookDynamic     ID = "hook-dynamic"
	HookAbsent      ID = "hook-absent"
	HookOK          ID = "hook-ok"

	SpecInvalid     ID = "spec-invalid"
	SpecTwins       ID = "spec-twins"
	SpecConflict    ID = "spec-conflict"
	SpecStale       ID = "spec-stale"
	SpecWrongDevice ID = "spec-wrong-device"
	SpecNone        ID = "spec-none"
	SpecIncomplete  ID = "spec-incomplete"
	SpecExtension   ID = "spec-extension"
	SpecMode        ID = "spec-mode"
	SpecShadowed    ID = "spec-shadowed"
	SpecsOK         ID = "specs-ok"

	MADNodeOpen  ID = "mad-node-open"
	SpecGivesMAD ID = "spec-gives-mad"
	SpecGivesAll ID = "spec-gives-all"
	PrivilegeOK  ID = "privilege-ok"

	RuntimeTooOld  ID = "runtime-too-old"
	RuntimeDirs    ID = "runtime-dirs"
	RuntimeNoCDI   ID = "runtime-no-cdi"
	RuntimeCDIOff  ID = "runtime-cdi-off"
	RuntimeUnknown ID = "runtime-unknown"
	RuntimeNone    ID = "runtime-none"
	RuntimeOK      ID = "runtime-ok"

	RDMAMapDiffers ID = "rdmamap-differs"
	RDMAMapAgrees  ID = "rdmamap-agrees"

	GPUPeerMissing ID = "gpu-peer-missing"
	GPUPeerOK      ID = "gpu-peer-ok"
)

// position is the place of an ID in the catalogue.
func position(id ID) int {
	for i := range Catalog {
		if Catalog[i].ID == id {
			return i
		}
	}
	return len(Catalog)
}
