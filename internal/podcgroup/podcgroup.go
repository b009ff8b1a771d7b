// Package podcgroup knows a pod by its cgroup, whose name the kubelet makes of the pod's UID.
// No user can change it, unlike annotations. It is a leaf without dependencies, since the
// hook links it.
package podcgroup

import "strings"

// UID returns the UID in the name of a pod's cgroup, empty if it is none:
//
//	kubepods-burstable-pod0f1e2d3c_0000_4000_8000_00000000000a.slice
//	pod0f1e2d3c-0000-4000-8000-00000000000a
//
// systemd has no hyphen in the name of a slice, so the kubelet writes underscores there.
// Static pods have a hash of 32 digits for a UID.
func UID(name string) string {
	name = strings.TrimSuffix(name, ".slice")
	i := strings.LastIndex(name, "pod")
	if i < 0 || i > 0 && name[i-1] != '-' {
		return ""
	}
	uid := strings.ReplaceAll(name[i+len("pod"):], "_", "-")
	if !valid(uid) {
		return ""
	}
	return uid
}

// valid reports whether a text is a UUID in lower case, or 32 digits.
func valid(uid string) bool {
	hyphens := len(uid) == 36
	if !hyphens && len(uid) != 32 {
		return false
	}
	for i := range len(uid) {
		c := uid[i]
		if hyphens && (i == 8 || i == 13 || i == 18 || i == 23) {
			if c != '-' {
				return false
			}
			continue
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// OfProcess returns the UID of the pod that a process is in, by /proc/<pid>/cgroup, empty
// if it is in none. Of a cluster in a pod of another one, the inner pod is meant.
func OfProcess(text string) (uid string) {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, path, _ := strings.Cut(rest, ":")
		for name := range strings.SplitSeq(path, "/") {
			if found := UID(name); found != "" {
				uid = found
			}
		}
		if uid != "" {
			return uid
		}
	}
	return ""
}
