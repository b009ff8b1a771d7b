package doctor

import (
	"fmt"
	"slices"
)

// ID names a kind of finding. It must not change, because scripts filter by it.
type ID string

// lookup returns the place of a finding in a report, and its group. Every finding of a check must be in the catalogue.
func lookup(id ID) (position int, group string) {
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
	group string
	ids   []ID
}{
	{"kernel", []ID{"driver-missing", "no-hca", "uverbs-module", "rdma-cm-module", "netns-exclusive", "hca-unreadable",
		"hca-unusable", "umad-module", "rdma-cgroup-missing", "modules-ok", "netns-ok", "rdma-cgroup-ok"}},
	{"nodes", []ID{"node-missing", "node-wrong-device", "node-mode", "node-stale", "nodes-ok"}},
	{"ports", []ID{"no-active-port", "port-down", "port-init", "guid-zero", "roce-no-gid", "ports-ok", "roce-gids-ok"}},
	{"memlock", []ID{"memlock-low", "memlock-clamped", "memlock-restart", "memlock-configured", "memlock-by-hook",
		"memlock-ok"}},
	{"hook", []ID{"hook-missing", "hook-not-executable", "hook-noexec", "hook-replaceable", "hook-arch", "hook-dynamic",
		"hook-absent", "hook-ok"}},
	{"specs", []ID{"spec-invalid", "spec-twins", "spec-conflict", "spec-stale", "spec-wrong-device", "spec-none",
		"spec-incomplete", "spec-extension", "spec-mode", "spec-shadowed", "specs-ok"}},
	{"privilege", []ID{"mad-node-open", "spec-gives-mad", "spec-gives-all", "privilege-ok"}},
	{"runtimes", []ID{"runtime-too-old", "runtime-dirs", "runtime-no-cdi", "runtime-cdi-off", "runtime-unknown",
		"runtime-none", "runtime-ok"}},
	{"rdmamap", []ID{"rdmamap-differs", "rdmamap-agrees"}},
	{"gpu", []ID{"gpu-peer-missing", "gpu-peer-ok"}},
}
