package rdmacgroup

import (
	"errors"
	"fmt"
	"io/fs"
)

// Pods are the pods that have a cgroup. The kubelet makes the cgroup before a pod's first process, and removes it after
// the last one. So a pod without a cgroup runs no process.
type Pods struct {
	uids       map[string]bool
	containers map[string]string
}

// Has reports whether a pod has a cgroup.
func (p Pods) Has(uid string) bool { return p.uids[uid] }

// Of returns the UID of a container's pod, or "" if the container has no cgroup. The UID is trustworthy: the kubelet
// sets it, and no process in a pod can change it.
func (p Pods) Of(container string) string { return p.containers[container] }

// errNoPods is the error for a host whose kubelet makes no cgroups for pods, or where they are not visible.
var errNoPods = errors.New("no pod has a cgroup below /sys/fs/cgroup of the host: the kubelet makes none " +
	"(cgroupsPerQOS), or they are not visible here")

// ReadPods finds the pods below a /sys/fs/cgroup, in any hierarchy. It fails if a pod may be missing from the result:
// it could not read a cgroup, or did not find self, the caller's own pod. If self is empty, it must find at least one
// pod.
func ReadPods(cgroups fs.FS, self string) (Pods, error) {
	s := search{fs: cgroups, pods: map[string]bool{}}
	roots := []string{"."}
	if !s.isVersion2() {
		roots = hierarchies(cgroups)
	}
	s.walk(roots...)
	p := Pods{uids: s.pods, containers: map[string]string{}}
	for _, c := range s.containers {
		p.containers[c.id] = c.pod
	}
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

// hierarchies returns the mounts of version 1, which all contain the same pods, and the mount of version 2 if it is
// beside them.
func hierarchies(cgroups fs.FS) (dirs []string) {
	entries, _ := fs.ReadDir(cgroups, ".") // after an error ReadPods does not find self, and fails
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}
