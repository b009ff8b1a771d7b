// Package rdmacgroup reads what the containers of Kubernetes pods hold of RDMA devices,
// as the kernel's rdma cgroup controller counts it (rdma.current), and how much they may
// (rdma.max).
//
// A container is known by its cgroup, in any layout that a kubelet makes:
//
//	kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice/cri-containerd-<ID>.scope
//	kubepods/burstable/pod<UID>/<ID>
//	kubepods.slice/kubepods-pod<UID>.slice/crio-<ID>.scope/container     (crun)
//
// below the mount of cgroup version 2, its hierarchy "unified" or the one of version 1,
// "rdma". [ReadPods] finds which pods and containers have a cgroup at all.
package rdmacgroup

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Usage is what one container holds of one RDMA device.
type Usage struct {
	PodUID    string
	Container string // the container runtime's ID
	IBDev     string
	// Handles are open contexts (hca_handle), Objects are verbs objects (hca_object).
	Handles, Objects uint64
	// MaxHandles and MaxObjects are the limits, nil for none.
	MaxHandles, MaxObjects *uint64
}

// Read looks for containers below a /sys/fs/cgroup. A container that never opened an
// RDMA device, or has no rdma controller, is not in the result, which is sorted.
func Read(cgroups fs.FS) []Usage {
	var found []Usage
	s := search{fs: cgroups, container: func(dir, pod, id string) {
		found = append(found, read(cgroups, dir, pod, id)...)
	}}
	roots := []string{"unified", "rdma"} // version 1: its hierarchies are looked into by name
	if s.isVersion2() {
		roots = append(roots, ".")
	}
	s.walk(roots...)
	slices.SortFunc(found, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.IBDev, b.IBDev))
	})
	return found
}

// read reads the files of a container's cgroup.
func read(cgroups fs.FS, dir, pod, container string) (found []Usage) {
	current, err := fs.ReadFile(cgroups, path.Join(dir, "rdma.current"))
	if err != nil {
		return nil
	}
	limits := limitsOf(cgroups, dir)
	for _, l := range parse(string(current)) {
		if l.handles == nil || l.objects == nil {
			continue // "max" is no count
		}
		found = append(found, Usage{
			PodUID: pod, Container: container, IBDev: l.ibdev, Handles: *l.handles, Objects: *l.objects,
			MaxHandles: limits[l.ibdev].handles, MaxObjects: limits[l.ibdev].objects,
		})
	}
	return found
}

// crunChild is the cgroup below a container's that crun makes for its processes. The hook sets
// limits there; the kernel counts what is used in the container's cgroup as well.
const crunChild = "container"

// limitsOf reads the limits of a container by device: the lowest of those that hold for its
// processes.
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

// lowest is the lower of two limits; nil is none.
func lowest(a, b *uint64) *uint64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// line is one line of rdma.current or rdma.max; nil is "max", or not there.
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
