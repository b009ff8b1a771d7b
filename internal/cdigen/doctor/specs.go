package doctor

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/runtimeconf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// specDirs are the directories that all runtimes read by default, the one with the highest priority last.
var specDirs = []string{cdi.StaticDir, cdi.DynamicDir}

// dirsOf returns specDirs, and what the configurations of installed runtimes name beside them. A rootless dockerd, for
// one, reads directories of its user.
func dirsOf(engines []engine) []string {
	dirs := slices.Clone(specDirs)
	for _, e := range engines {
		for _, dir := range e.config.Dirs {
			if !runtimeconf.Among(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// specFile is a file in a spec directory.
type specFile struct {
	dir, path string
	ignored   bool        // runtimes ignore its extension .yml
	spec      *specs.Spec // nil if it is invalid; err has the reason
	err       error
	rdma      bool // gives RDMA nodes, or its name says so
}

// valid reports whether runtimes load the file.
func (s specFile) valid() bool { return s.spec != nil }

func (s specFile) String() string { return s.path }

// specFiles are the files in the spec directories.
type specFiles []specFile

// in lists the files of some directories.
func (specs specFiles) in(dirs ...string) specFiles {
	return slices.DeleteFunc(slices.Clone(specs), func(s specFile) bool { return !slices.Contains(dirs, s.dir) })
}

// rdma lists the specs with RDMA devices that runtimes load.
func (specs specFiles) rdma() []specFile {
	return slices.DeleteFunc(slices.Clone(specs), func(s specFile) bool { return !s.valid() || !s.rdma })
}

// newSpecFiles records the files that could not be read as not seen, and returns the others.
func newSpecFiles(read []cdi.SpecFile, failed unseen) (files specFiles) {
	for _, f := range read {
		if f.Unread() || errors.Is(f.Err, hostfs.ErrTooMany) {
			failed["spec "+f.Path] = f.Err
			f.Err = nil
		}
		if f.Path == f.Dir || f.Mode == 0 && f.Err == nil {
			continue // checkSpecDirs checks directories
		}
		s := specFile{dir: f.Dir, path: f.Path, ignored: errors.Is(f.Err, cdi.ErrExtension), spec: f.Spec, err: f.Err}
		s.rdma = strings.HasPrefix(path.Base(s.path), "rdma") || bytes.Contains(f.Data, []byte(rdma.DevDir))
		if s.spec != nil {
			s.rdma = isRDMA(s.spec)
		}
		files = append(files, s)
	}
	return files
}

// isRDMA reports whether a spec gives RDMA devices.
func isRDMA(spec *specs.Spec) bool {
	gives := func(e *specs.ContainerEdits) bool { return len(rdmaNodes(e)) > 0 || givesAll(e) }
	return spec.Kind == cdi.KindHCA || spec.Kind == cdi.KindClaim || slices.ContainsFunc(cdi.Edits(spec), gives)
}

// rdmaNodes lists the nodes below /dev/infiniband.
func rdmaNodes(e *specs.ContainerEdits) []*specs.DeviceNode {
	var nodes []*specs.DeviceNode
	for _, n := range e.DeviceNodes {
		if n != nil && path.Dir(hostPath(n)) == rdma.DevDir {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// hostPath returns the path of a node on the host.
func hostPath(n *specs.DeviceNode) string {
	if n.HostPath != "" {
		return path.Clean(n.HostPath)
	}
	return path.Clean(n.Path)
}

// givesAll reports whether edits give a container all of /dev/infiniband.
func givesAll(e *specs.ContainerEdits) bool {
	isWhole := func(name string) bool { return name == rdma.DevDir || name == path.Dir(rdma.DevDir) }
	return slices.ContainsFunc(e.Mounts, func(m *specs.Mount) bool {
		return m != nil &&
			isWhole(path.Clean(m.HostPath))
	}) ||
		slices.ContainsFunc(e.DeviceNodes, func(n *specs.DeviceNode) bool { return n != nil && isWhole(hostPath(n)) })
}

// rewrite returns the command that writes a spec again, with additional flags. The command replaces a spec of another
// program. A file that cannot be read counts as ours if its name is ours.
func (s specFile) rewrite(flags ...string) string {
	generate := strings.Join(append([]string{"cdi-gen generate"}, flags...), " ") + " --to "
	switch {
	case s.spec != nil && s.spec.Kind == cdi.KindClaim:
		return "kubectl -n dra-driver-rdma rollout restart daemonset"
	case s.spec != nil && s.spec.Kind == cdi.KindHCA,
		s.spec == nil && strings.HasPrefix(path.Base(s.path), cdi.SpecName(cdi.KindHCA, "")):
		return generate + text.Shell(s.path)
	}
	return "rm " + text.Shell(s.path) + " && " + generate + text.Shell(s.dir)
}
