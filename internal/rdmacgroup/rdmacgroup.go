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
// "rdma".
package rdmacgroup

import (
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/podcgroup"
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

// The bounds of a search: a node has a few hundred cgroups.
const (
	maxDepth = 12
	maxDirs  = 16384
)

// Read looks for containers below a /sys/fs/cgroup. A container that never opened an
// RDMA device, or has no rdma controller, is not in the result, which is sorted.
func Read(cgroups fs.FS) []Usage {
	s := search{fs: cgroups, left: maxDirs}
	for _, root := range []string{".", "unified", "rdma"} {
		if root == "." && !s.exists("cgroup.controllers") {
			continue // version 1: its hierarchies are looked into by name
		}
		s.walk(root, "", 0)
	}
	slices.SortFunc(s.found, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.IBDev, b.IBDev))
	})
	return s.found
}

type search struct {
	fs    fs.FS
	left  int
	found []Usage
}

func (s *search) exists(name string) bool {
	_, err := fs.Stat(s.fs, name)
	return err == nil
}

// walk looks into a cgroup and those below it. Pod is the UID of the pod that it
// belongs to, empty above pods.
func (s *search) walk(dir, pod string, depth int) {
	if s.left--; s.left < 0 || depth > maxDepth {
		return
	}
	if id := containerID(path.Base(dir)); id != "" && pod != "" {
		s.read(dir, pod, id)
		return
	}
	entries, err := fs.ReadDir(s.fs, dir)
	if err != nil {
		return // it has ended
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below := pod
		if uid := podcgroup.UID(e.Name()); uid != "" {
			below = uid
		}
		s.walk(path.Join(dir, e.Name()), below, depth+1)
	}
}

// read reads the files of a container's cgroup.
func (s *search) read(dir, pod, container string) {
	current, err := fs.ReadFile(s.fs, path.Join(dir, "rdma.current"))
	if err != nil {
		return
	}
	limits := s.limits(dir)
	for _, l := range parse(string(current)) {
		if l.handles == nil || l.objects == nil {
			continue // "max" is no count
		}
		s.found = append(s.found, Usage{
			PodUID: pod, Container: container, IBDev: l.ibdev, Handles: *l.handles, Objects: *l.objects,
			MaxHandles: limits[l.ibdev].handles, MaxObjects: limits[l.ibdev].objects,
		})
	}
}

// crunChild is the cgroup below a container's that crun makes for its processes. The hook sets
// limits there; the kernel counts what is used in the container's cgroup as well.
const crunChild = "container"

// limits reads the limits of a container by device: the lowest of those that hold for its
// processes.
func (s *search) limits(dir string) map[string]line {
	limits := map[string]line{}
	for _, at := range []string{dir, path.Join(dir, crunChild)} {
		text, err := fs.ReadFile(s.fs, path.Join(at, "rdma.max"))
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

var containerName = regexp.MustCompile(`^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$`)

// containerID returns the ID in the name of a container's cgroup. CRI-O's monitor of a
// container is none.
func containerID(name string) string {
	if m := containerName.FindStringSubmatch(name); m != nil && !strings.HasPrefix(name, "crio-conmon-") {
		return m[1]
	}
	return ""
}
