// Package rdmacgroup reads the usage of RDMA devices by the containers of Kubernetes pods (rdma.current), and their
// limits (rdma.max). The kernel's rdma cgroup controller counts the usage.
//
// The package identifies a container by its cgroup, in any layout that a kubelet makes:
//
//	kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice/cri-containerd-<ID>.scope
//	kubepods/burstable/pod<UID>/<ID>
//	kubepods.slice/kubepods-pod<UID>.slice/crio-<ID>.scope/container     (crun)
//
// The cgroups are below the mount of cgroup version 2, its hierarchy "unified", or the hierarchy "rdma" of version 1.
// [ReadPods] finds the pods and containers that have a cgroup.
package rdmacgroup

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// Usage is the usage of one RDMA device by one container.
type Usage struct {
	PodUID    string
	Container string // the container runtime's ID
	IBDev     string
	// Handles are open contexts (hca_handle), Objects are verbs objects (hca_object).
	Handles, Objects uint64
	// MaxHandles and MaxObjects are the limits, nil for none.
	MaxHandles, MaxObjects *uint64
}

// Read returns the usage of all containers below a /sys/fs/cgroup, sorted. It omits containers that never opened an
// RDMA device, or have no rdma controller.
func Read(cgroups fs.FS) []Usage {
	s := search{fs: cgroups, pods: map[string]bool{}}
	roots := []string{"unified", "rdma"} // version 1: search only these hierarchies
	if s.isVersion2() {
		roots = append(roots, ".")
	}
	s.walk(roots...)
	var found []Usage
	for _, c := range s.containers {
		found = append(found, c.usage(cgroups)...)
	}
	slices.SortFunc(found, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.IBDev, b.IBDev))
	})
	return found
}

// usage reads the usage and the limits of a container's cgroup.
func (c container) usage(cgroups fs.FS) (found []Usage) {
	current, err := fs.ReadFile(cgroups, path.Join(c.dir, "rdma.current"))
	if err != nil {
		return nil
	}
	limits := limitsOf(cgroups, c.dir)
	for _, l := range parse(string(current)) {
		if l.handles == nil || l.objects == nil {
			continue // "max" is not a count
		}
		found = append(found, Usage{
			PodUID: c.pod, Container: c.id, IBDev: l.ibdev, Handles: *l.handles, Objects: *l.objects,
			MaxHandles: limits[l.ibdev].handles, MaxObjects: limits[l.ibdev].objects,
		})
	}
	return found
}

// crunChild is the cgroup that crun makes for a container's processes, below the container's own. The hook sets limits
// there. The kernel counts the usage in the container's own cgroup as well.
const crunChild = "container"

// limitsOf returns the limits of a container by device: the lowest of the limits that apply to its processes.
func limitsOf(cgroups fs.FS, dir string) map[string]line {
	limits := map[string]line{}
	for _, at := range []string{dir, path.Join(dir, crunChild)} {
		text, err := fs.ReadFile(cgroups, path.Join(at, "rdma.max"))
		if err != nil {
			continue
		}
		for _, l := range parse(string(text)) {
			above := limits[l.ibdev]
			limits[l.ibdev] = line{l.ibdev, lowest(above.handles, l.handles), lowest(above.objects, l.objects)}
		}
	}
	return limits
}

// lowest returns the lower of two limits. nil means no limit.
func lowest(a, b *uint64) *uint64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// line is one line of rdma.current or rdma.max. A nil count means "max", or that the line has no such count.
type line struct {
	ibdev            string
	handles, objects *uint64
}

// parse reads lines such as "mlx5_0 hca_handle=2 hca_object=max".
func parse(text string) []line {
	var out []line
	for row := range strings.Lines(text) {
		words := strings.Fields(row)
		if len(words) < 2 {
			continue
		}
		l := line{ibdev: words[0]}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			n, err := strconv.ParseUint(value, 10, 64)
			switch {
			case err != nil:
			case name == "hca_handle":
				l.handles = &n
			case name == "hca_object":
				l.objects = &n
			}
		}
		out = append(out, l)
	}
	return out
}

// errNoController is the error for a host that cannot enforce limits on HCAs.
var errNoController = errors.New("the host's kernel has no rdma cgroup controller (CONFIG_CGROUP_RDMA): " +
	"limits on handles and objects are for the scheduler's account only, and no container is held to them")

// Enforced returns the reason why a host cannot enforce limits of containers on their HCAs, or nil if it can. Whether a
// runtime supports the limits shows only at each container.
func Enforced(hostRoot string) error {
	cgroups := filepath.Join(hostRoot, "sys/fs/cgroup")
	// Version 2 alone, or version 2 beside the hierarchies of version 1.
	for _, dir := range []string{cgroups, filepath.Join(cgroups, "unified")} {
		data, err := hostfs.ReadLocal(filepath.Join(dir, "cgroup.controllers"), 4<<10)
		if err == nil && slices.Contains(strings.Fields(string(data)), "rdma") {
			return nil
		}
	}
	if info, err := os.Stat(filepath.Join(cgroups, "rdma")); err == nil && info.IsDir() {
		return nil
	}
	return errNoController
}
