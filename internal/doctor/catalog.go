package doctor

import (
	"fmt"
	"slices"
)

// ID names a kind of finding. It must not change, because scripts filter by it.
type ID string

// Group is the subject of a finding.
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

// The findings. docs/doctor.md explains each one.
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

// lookup returns the place of a finding in a report, and its group. Every finding of a check must be in the catalogue.
func lookup(id ID) (position int, group Group) {
	for _, c := range catalog {
		if i := slices.Index(c.ids, id); i >= 0 {
			return position + i, c.group
		}
		position += len(c.ids)
	}
	panic(fmt.Sprintf("doctor: finding %q is not in the catalogue", id))
}

// catalog has the findings of each group, in the order of a report. docs/doctor.md says what each one means, which
// severities it can have and what to do.
var catalog = []struct {
	group Group
	ids   []ID
}{
	{GroupKernel, []ID{DriverMissing, NoHCA, UverbsModule, CMModule, NetnsExcl, HCAUnreadable, HCAUnusable, UmadModule,
		NoRDMACgroup, ModulesOK, NetnsOK, RDMACgroupOK}},
	{GroupNodes, []ID{NodeMissing, NodeWrong, NodeMode, NodeStale, NodesOK}},
	{GroupPorts, []ID{NoActivePort, PortDown, PortInit, GUIDZero, RoCENoGID, PortsOK, RoCEGIDsOK}},
	{GroupMemlock, []ID{MemlockLow, MemlockClamped, MemlockRestart, MemlockConfigured, MemlockByHook, MemlockOK}},
	{GroupHook, []ID{HookMissing, HookNotExec, HookNoexec, HookReplaceable, HookArch, HookDynamic, HookAbsent, HookOK}},
	{GroupSpecs, []ID{SpecInvalid, SpecTwins, SpecConflict, SpecStale, SpecWrongDevice, SpecNone, SpecIncomplete,
		SpecExtension, SpecMode, SpecShadowed, SpecsOK}},
	{GroupPrivilege, []ID{MADNodeOpen, SpecGivesMAD, SpecGivesAll, PrivilegeOK}},
	{GroupRuntimes, []ID{RuntimeTooOld, RuntimeDirs, RuntimeNoCDI, RuntimeCDIOff, RuntimeUnknown, RuntimeNone,
		RuntimeOK}},
	{GroupRDMAMap, []ID{RDMAMapDiffers, RDMAMapAgrees}},
	{GroupGPU, []ID{GPUPeerMissing, GPUPeerOK}},
}
