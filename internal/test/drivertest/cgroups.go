package drivertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// staticPod is a pod that each node has: the kubelet made it of a file.
const staticPod = "0123456789abcdef0123456789abcdef"

// newCgroups makes the cgroups of a node with one pod.
func newCgroups(t testing.TB) string {
	t.Helper()
	dir := TempDir(t)
	must.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpu memory pids\n"), 0o644))
	h := &Host{cgroups: dir}
	h.AddPodCgroup(t, staticPod)
	return dir
}

// Cgroups is the root of the host's cgroups.
func (h *Host) Cgroups() string { return h.cgroups }

// AddPodCgroup makes the cgroups of a pod and of containers in it, as a kubelet and a runtime do before
// a process runs there. IDs of containers have 64 hexadecimal digits.
func (h *Host) AddPodCgroup(t testing.TB, uid string, containers ...string) {
	t.Helper()
	for _, dir := range append(containers, "") {
		must.NoError(t, os.MkdirAll(filepath.Join(h.podCgroup(uid), dir), 0o755))
	}
}

// RemovePodCgroup removes them, as a kubelet does when the last process has ended.
func (h *Host) RemovePodCgroup(t testing.TB, uid string) {
	t.Helper()
	must.NoError(t, os.RemoveAll(h.podCgroup(uid)))
}

func (h *Host) podCgroup(uid string) string { return filepath.Join(h.cgroups, "kubepods", "pod"+uid) }

// HideCgroups removes the cgroups of all pods, as of a kubelet that makes none (--cgroups-per-qos=false).
func (h *Host) HideCgroups(t testing.TB) {
	t.Helper()
	must.NoError(t, os.RemoveAll(filepath.Join(h.cgroups, "kubepods")))
}
