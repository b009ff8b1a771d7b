package rdmacgroup

import (
	"errors"
	"fmt"
	"io/fs"
)

// Pods are the pods that have a cgroup. A kubelet makes it before a pod's first process and removes it after
// the last one, so a pod without a cgroup runs nothing.
type Pods struct {
	uids       map[string]bool
	containers map[string]string
}

// Has reports whether a pod has a cgroup.
func (p Pods) Has(uid string) bool { return p.uids[uid] }

// Of returns the UID of the pod in which a container is, empty if the container has no cgroup. It is the
// kubelet's word: nothing in a pod can change it.
func (p Pods) Of(container string) string { return p.containers[container] }

// errNoPods is the answer of a host whose kubelet makes no cgroups for pods, or does not show them.
var errNoPods = errors.New("no pod has a cgroup below /sys/fs/cgroup of the host: the kubelet makes none " +
	"(cgroupsPerQOS), or they are not visible here")

// ReadPods finds the pods below a /sys/fs/cgroup, in any hierarchy. It fails if any may be missing: if a cgroup
// cannot be read, or the pod self, which is the caller's, is not seen. Where self is empty some pod has to be seen.
func ReadPods(cgroups fs.FS, self string) (Pods, error) {
	p := Pods{uids: map[string]bool{}, containers: map[string]string{}}
	s := search{
		fs:        cgroups,
		pod:       func(uid string) { p.uids[uid] = true },
		container: func(_, pod, id string) { p.containers[id] = pod },
	}
	roots := []string{"."}
	if !s.isVersion2() {
		roots = hierarchies(cgroups)
	}
	s.walk(roots...)
	switch {
	case s.err != nil:
		return p, s.err
	case len(p.uids) == 0:
		return p, errNoPods
	case self != "" && !p.Has(self):
		return p, fmt.Errorf("the cgroup of the driver's own pod %s is not below /sys/fs/cgroup of the host, so those of "+
			"other pods may not be either", self)
	}
	return p, nil
}

// hierarchies are the mounts of version 1, each with the same pods, and perhaps that of version 2 beside them.
func hierarchies(cgroups fs.FS) (dirs []string) {
	entries, _ := fs.ReadDir(cgroups, ".") // what is missing then is the caller's pod
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}
