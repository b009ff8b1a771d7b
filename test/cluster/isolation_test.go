package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// world is what of the host a cluster must not change.
type world map[string]string

// watched are directories in which a node's programs like to write; their entries are
// listed one level deep.
var watched = []string{
	"/", "/etc", "/etc/cdi", "/etc/cni", "/etc/containerd", "/etc/kubernetes", "/run", "/run/containerd", "/run/netns",
	"/var/lib", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/log", "/var/run/cdi",
	"/opt", "/dev", "/dev/infiniband", "/usr/libexec",
}

var watchedFiles = []string{
	"/proc/sys/net/ipv4/ip_forward", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom",
	"/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops", "/proc/sys/kernel/hostname",
	"/proc/sys/kernel/keys/root_maxkeys", "/proc/sys/kernel/keys/root_maxbytes",
	"/proc/self/mounts", "/etc/hosts", "/etc/resolv.conf", "/sys/fs/cgroup/cgroup.subtree_control",
}

func look(t *testing.T) world {
	t.Helper()
	w := world{}
	for _, dir := range watched {
		entries, err := os.ReadDir(dir)
		if err != nil {
			w[dir] = fmt.Sprint(errors.Is(err, fs.ErrNotExist))
			continue
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		w[dir] = strings.Join(names, "\n")
	}
	others, err := filepath.Glob("/sys/fs/cgroup/dra-driver-rdma-cluster-*")
	must.NoError(t, err)
	for _, file := range watchedFiles {
		if strings.HasPrefix(file, "/sys/fs/cgroup/") && len(others) > 0 {
			continue // this cluster's or another one's: what the root hands out stays until it ends
		}
		data, err := os.ReadFile(file)
		w[file] = fmt.Sprint(string(data), err)
	}
	links, err := os.ReadDir("/sys/class/net")
	must.NoError(t, err)
	w["links"] = fmt.Sprint(links)
	return w
}

func (w world) compare(t *testing.T, when string, now world) {
	t.Helper()
	for what, before := range w {
		if after, looked := now[what]; looked && after != before {
			t.Errorf("%s: %s changed:\n--- before\n%s\n--- now\n%s", when, what, before, after)
		}
	}
}

// ours lists what the host sees of the cluster: its cgroups, and the processes in them,
// which are all its daemons and pods.
func ours(t *testing.T, stateDir string) (pids []int, cgroups []string) {
	t.Helper()
	name := cluster.CgroupName(stateDir)
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	must.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), name) {
			continue // it has ended meanwhile, or is somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		must.NoError(t, err)
		pids = append(pids, pid)
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.Contains(path, name) {
			cgroups = append(cgroups, path)
		}
		return nil // cgroups come and go while we walk
	})
	must.NoError(t, err)
	return pids, cgroups
}

const plainPod = `
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/busybox:testbed
    imagePullPolicy: Never
    command: [/bin/sh, -c, "echo hello; exec sleep 1000000"]
    securityContext: {runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

func TestUpDownLeavesNothing(t *testing.T) {
	o := options(t)
	before := look(t)
	c := up(t, o)
	apply(t, c, plainPod)
	if processes, cgroups := ours(t, o.StateDir); len(processes) < 9 || len(cgroups) == 0 {
		t.Fatalf("the test does not see the running cluster: %v %q", processes, cgroups)
	}
	before.compare(t, "while the cluster runs", look(t))

	must.NoError(t, cluster.Down(t.Context(), o, false))
	before.compare(t, "after down", look(t))
	if processes, cgroups := ours(t, o.StateDir); len(processes)+len(cgroups) > 0 {
		t.Errorf("left behind: %v %q", processes, cgroups)
	}
	if _, err := os.Stat(o.StateDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state directory is still there: %v", err)
	}
	test.NoError(t, cluster.Down(t.Context(), o, false), test.Sprint("a second down"))
}

// A component that cannot start is told with the end of its log, and takes nothing
// with it.
func TestFailureShowsTheLog(t *testing.T) {
	needs.Long(t, "the test bed alone, 8 s; TestUpDownLeavesNothing shows that nothing is left")
	o := options(t)
	o.FeatureGates = map[string]bool{"NoSuchGate": true}
	t.Cleanup(func() { cluster.Down(context.Background(), o, false) })
	_, err := cluster.Up(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver") || !strings.Contains(err.Error(), "NoSuchGate") {
		t.Fatalf("got %v, want an error with the API server's words", err)
	}
	if processes, cgroups := ours(t, o.StateDir); len(processes)+len(cgroups) > 0 {
		t.Errorf("left behind: %v %q", processes, cgroups)
	}
	path, err := cluster.LogFile(o, cluster.APIServer)
	must.NoError(t, err)
	_, err = os.Stat(path)
	test.NoError(t, err, test.Sprint("the log is gone"))
}

func TestStateDirOfSomebodyElse(t *testing.T) {
	o := options(t)
	mine := filepath.Join(o.StateDir, "thesis.tex")
	must.NoError(t, errors.Join(os.MkdirAll(o.StateDir, 0o755), os.WriteFile(mine, nil, 0o644)))
	if _, err := cluster.Up(t.Context(), o); err == nil {
		t.Error("up took a directory that is not its own")
	}
	test.Error(t, cluster.Down(t.Context(), o, false), test.Sprint("down removed a directory that is not its own"))
	_, err := os.Stat(mine)
	test.NoError(t, err, test.Sprint("the file is gone"))
}
