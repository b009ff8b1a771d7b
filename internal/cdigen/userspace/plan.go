package userspace

import (
	"cmp"
	"path"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/rdmacore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// Library is a library of the plan.
type Library struct {
	// Name is the name that the dynamic linker or libibverbs requests: a SONAME, or the file name of a provider.
	Name     string              `json:"name"`
	HostPath string              `json:"hostPath"`
	Needs    map[string][]string `json:"needs,omitempty"`   // symbol versions, by library
	Defines  []string            `json:"defines,omitempty"` // symbol versions

	mounts []string // container paths
}

// Plan describes how a container gets the host's RDMA user space. It is valid for the host as Find saw it. Callers must
// make a new plan after an upgrade of rdma-core.
type Plan struct {
	// Mounts are sorted by container path, which is unique. A host path may be a symbolic link on the host; mounting
	// follows it.
	Mounts []cdi.Mount `json:"mounts"`
	// ABI is the number of the private ABI between libibverbs and its providers, such as 34 in
	// libmlx5-rdmav34.so.
	ABI string `json:"abi"`
	// GLIBC is the oldest glibc that an image may have: "2.34".
	GLIBC string `json:"glibc"`
	// Drivers are the providers in the plan, by their libibverbs names: mlx5.
	Drivers []string `json:"drivers"`
	// Libraries are sorted by name.
	Libraries []Library `json:"libraries"`
	// Warnings name what the containers will lack, or receive in addition. They are sorted.
	Warnings []string `json:"warnings,omitempty"`
}

// newPlan makes a plan from the result of a search.
func newPlan(s *search) *Plan {
	p := &Plan{
		ABI: s.verbs.ABI, Drivers: s.drivers, Warnings: s.warnings,
		Mounts: []cdi.Mount{{HostPath: "/" + s.configDir, ContainerPath: s.verbs.ConfigDir}},
	}
	var newest glibcVersion
	for _, lib := range s.libraries {
		p.Libraries = append(p.Libraries, *lib)
		for _, at := range lib.mounts {
			p.Mounts = append(p.Mounts, cdi.Mount{HostPath: lib.HostPath, ContainerPath: at})
		}
		if v := lib.glibc(); newest.less(v) {
			newest = v
		}
	}
	p.GLIBC = newest.String()
	slices.SortFunc(p.Libraries, func(a, b Library) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Mounts, func(a, b cdi.Mount) int { return cmp.Compare(a.ContainerPath, b.ContainerPath) })
	slices.Sort(p.Drivers)
	slices.Sort(p.Warnings)
	p.Warnings = slices.Compact(p.Warnings)
	return p
}

// glibc returns the oldest glibc that has the symbol versions which the library needs.
func (l *Library) glibc() glibcVersion {
	var newest glibcVersion
	for name, versions := range l.Needs {
		if v := newestGLIBC(versions); rdmacore.PartOfGLIBC(name) && newest.less(v) {
			newest = v
		}
	}
	return newest
}

// library returns a library that programs request by its SONAME. It is mounted in one directory for each family of
// distributions.
func library(l rdmacore.Layout, name string, f *found) *Library {
	lib := &Library{Name: name, HostPath: "/" + f.path, Needs: f.Needs, Defines: f.Defines}
	for _, dir := range []string{"/usr/lib/" + l.Triplet, "/usr/lib64"} {
		lib.mounts = append(lib.mounts, path.Join(dir, name))
	}
	return lib
}
