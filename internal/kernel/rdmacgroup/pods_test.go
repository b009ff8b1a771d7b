package rdmacgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
)

const (
	selfUID  = "5e1f0000-0000-4000-8000-00000000000a"
	otherUID = "0f1e2d3c-0000-4000-8000-00000000000b"
)

// TestReadPods: pods and containers are found in each layout; a look that may have missed one is an error.
func TestReadPods(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		hide  string // what cannot be read
		want  string // in the error
	}{
		"version 2": {files: []string{"cgroup.controllers", "kubepods/pod" + selfUID + "/x",
			"kubepods/burstable/pod" + uid + "/" + id1 + "/cgroup.procs"}},
		"systemd": {files: []string{"cgroup.controllers", "kubepods.slice/kubepods-pod" +
			strings.ReplaceAll(selfUID, "-", "_") + ".slice/x", "kubepods.slice/kubepods-pod" +
			strings.ReplaceAll(uid, "-", "_") + ".slice/crio-" + id1 + ".scope/x"}},
		"version 1": {files: []string{"memory/kubepods/pod" + selfUID + "/x", "pids/kubepods/pod" + uid + "/" + id1 +
			"/tasks"}},
		"no cgroups": {want: "no pod has a cgroup"},
		"none of pods": {files: []string{"cgroup.controllers", "system.slice/" + id1 + "/x"},
			want: "no pod has a cgroup"},
		"not the caller's": {files: []string{"cgroup.controllers", "kubepods/pod" + uid + "/" + id1 + "/x"},
			want: "the driver's own pod " + selfUID},
		"one is unreadable": {files: []string{"cgroup.controllers", "kubepods/pod" + selfUID + "/x",
			"kubepods/burstable/pod" + uid + "/x"}, hide: "kubepods/burstable", want: `read cgroup "kubepods/burstable"`},
		"one has ended": {files: []string{"cgroup.controllers", "kubepods/pod" + selfUID + "/x",
			"kubepods/pod" + uid + "/" + id1 + "/x", "old/x"}, hide: "ended old"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for _, f := range tc.files {
				files[f] = ""
			}
			pods, err := rdmacgroup.ReadPods(hiding{cgroups(files), tc.hide}, selfUID)
			if tc.want != "" {
				test.ErrorContains(t, err, tc.want)
				return
			}
			if err != nil || !pods.Has(uid) || !pods.Has(selfUID) || pods.Has(otherUID) || pods.Of(id1) != uid ||
				pods.Of(id2) != "" {
				t.Errorf("pods %v, %v", pods, err)
			}
		})
	}
}

// hiding is a file system with a directory that cannot be read, or that ends as it is.
type hiding struct {
	fstest.MapFS
	dir string
}

func (h hiding) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == h.dir {
		return nil, errors.New("permission denied")
	}
	if ended, _ := strings.CutPrefix(h.dir, "ended "); name == ended {
		return nil, fs.ErrNotExist
	}
	return h.MapFS.ReadDir(name)
}

// TestReadPodsBound: a tree that is larger than any node's is an error, and ends.
func TestReadPodsBound(t *testing.T) {
	files := map[string]string{"cgroup.controllers": "", "kubepods/pod" + selfUID + strings.Repeat("/x", 40): ""}
	if _, err := rdmacgroup.ReadPods(cgroups(files), selfUID); err == nil ||
		!strings.Contains(err.Error(), "more cgroups") {
		t.Errorf("error %v", err)
	}
}

func ExampleReadPods() {
	pods, err := rdmacgroup.ReadPods(cgroups(map[string]string{
		"cgroup.controllers": "",
		"kubepods/pod" + selfUID + "/" + id2 + "/cgroup.procs": "",
		"kubepods/pod" + uid + "/" + id1 + "/cgroup.procs":     "",
	}), selfUID)
	fmt.Println(pods.Has(uid), pods.Has(otherUID), pods.Of(id1) == uid, err)
	// Output: true false true <nil>
}
