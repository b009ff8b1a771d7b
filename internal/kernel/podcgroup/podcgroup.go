// Package podcgroup identifies a pod by its cgroup. The kubelet forms the cgroup's name from the pod's UID, and no user
// can change it, unlike annotations. The package must stay without dependencies, because the hook links it.
package podcgroup

import "strings"

// UID returns the UID in the name of a pod's cgroup, or "" for other names:
//
//	kubepods-burstable-pod0f1e2d3c_0000_4000_8000_00000000000a.slice
//	pod0f1e2d3c-0000-4000-8000-00000000000a
//
// systemd does not allow a hyphen there in the name of a slice, so the kubelet writes underscores. The UID of a static
// pod is a hash of 32 digits.
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

// valid reports whether a text is a UUID in lower case, or 32 hexadecimal digits.
func valid(uid string) bool {
	digits := strings.ReplaceAll(uid, "-", "")
	isUUID := len(uid) == 36 && uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-'
	return len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == "" && (isUUID || len(uid) == 32)
}

// OfProcess returns the UID of a process's pod, from the text of /proc/<pid>/cgroup, or "" if the process is in no pod.
// If a cluster runs in a pod of another cluster, it returns the UID of the inner pod.
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
