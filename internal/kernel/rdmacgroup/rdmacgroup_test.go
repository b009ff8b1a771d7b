package rdmacgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

const (
	uid = "0f1e2d3c-0000-4000-8000-00000000000a"
	id1 = "1111111111111111111111111111111111111111111111111111111111111111"
	id2 = "2222222222222222222222222222222222222222222222222222222222222222"
)

// cgroups is a /sys/fs/cgroup with the given files.
func cgroups(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

// TestLayouts: containers are found wherever a kubelet and a runtime put them.
func TestLayouts(t *testing.T) {
	const current = "mlx5_0 hca_handle=2 hca_object=2000\nmlx5_1 hca_handle=0 hca_object=0\n"
	underscored := strings.ReplaceAll(uid, "-", "_")
	for name, tc := range map[string]struct{ dir, mark string }{
		"systemd, containerd": {"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + underscored +
			".slice/cri-containerd-" + id1 + ".scope", "cgroup.controllers"},
		"systemd, CRI-O, guaranteed": {"kubepods.slice/kubepods-pod" + underscored + ".slice/crio-" + id1 + ".scope",
			"cgroup.controllers"},
		"cgroupfs": {"kubepods/besteffort/pod" + uid + "/" + id1, "cgroup.controllers"},
		"below the kubelet's own": {"system.slice/kubelet.service/kubelet/kubepods/pod" + uid + "/" + id1,
			"cgroup.controllers"},
		"version 1":     {"rdma/kubepods/pod" + uid + "/" + id1, ""},
		"both versions": {"unified/kubepods/pod" + uid + "/" + id1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{tc.dir + "/rdma.current": current,
				tc.dir + "/rdma.max": "mlx5_0 hca_handle=4 hca_object=max\n"}
			if tc.mark != "" {
				files[tc.mark] = "cpu rdma"
			}
			four := uint64(4)
			want := []rdmacgroup.Usage{
				{PodUID: uid, Container: id1, IBDev: "mlx5_0", Handles: 2, Objects: 2000, MaxHandles: &four},
				{PodUID: uid, Container: id1, IBDev: "mlx5_1"},
			}
			test.Eq(t, want, rdmacgroup.Read(cgroups(files)), test.Sprint("usage"))
		})
	}
}

// TestCrun: crun puts the processes into a cgroup "container" below the scope, where the hook
// limits them. The kernel counts their use in both, and the lowest limit holds.
func TestCrun(t *testing.T) {
	scope := "kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/crio-" + id1 + ".scope"
	number := func(n uint64) *uint64 { return &n }
	for name, tc := range map[string]struct {
		scope, container string
		handles, objects *uint64
	}{
		"as the hook writes it": {"mlx5_0 hca_handle=max hca_object=max\n", "mlx5_0 hca_handle=4 hca_object=100\n", number(4),
			number(100)},
		"not limited": {"mlx5_0 hca_handle=max hca_object=max\n", "mlx5_0 hca_handle=max hca_object=max\n", nil,
			nil},
		"limited in both": {"mlx5_0 hca_handle=2 hca_object=500\n", "mlx5_0 hca_handle=4 hca_object=100\n", number(2),
			number(100)},
		"other devices": {"mlx5_1 hca_handle=2 hca_object=5\n", "mlx5_2 hca_handle=4 hca_object=100\n", nil, nil},
	} {
		got := rdmacgroup.Read(cgroups(map[string]string{
			"cgroup.controllers": "rdma", scope + "/rdma.current": "mlx5_0 hca_handle=2 hca_object=50\n",
			scope + "/rdma.max":               tc.scope,
			scope + "/container/rdma.current": "mlx5_0 hca_handle=2 hca_object=50\n",
			scope + "/container/rdma.max":     tc.container,
		}))
		want := []rdmacgroup.Usage{{PodUID: uid, Container: id1, IBDev: "mlx5_0", Handles: 2, Objects: 50,
			MaxHandles: tc.handles, MaxObjects: tc.objects}}
		test.Eq(t, want, got, test.Sprintf("%s: usage", name))
	}
}

// TestNotContainers: what is no container of a pod, or has no controller, is not there.
func TestNotContainers(t *testing.T) {
	pod := "kubepods/pod" + uid + "/"
	got := rdmacgroup.Read(cgroups(map[string]string{
		"cgroup.controllers":                               "rdma",
		"rdma.current":                                     "mlx5_0 hca_handle=9 hca_object=9\n",
		"system.slice/" + id1 + "/rdma.current":            "mlx5_0 hca_handle=9 hca_object=9\n",
		pod + "crio-conmon-" + id1 + ".scope/rdma.current": "mlx5_0 hca_handle=9 hca_object=9\n",
		pod + "rdma.current":                               "mlx5_0 hca_handle=9 hca_object=9\n",
		pod + id1 + "/memory.current":                      "1\n",
		pod + id2 + "/rdma.current": "mlx5_0 hca_handle=max hca_object=1\nbad\n\n mlx5_1 " +
			"hca_handle=1 hca_object=2 more=3\n",
	}))
	want := []rdmacgroup.Usage{{PodUID: uid, Container: id2, IBDev: "mlx5_1", Handles: 1, Objects: 2}}
	test.Eq(t, want, got, test.Sprint("usage"))
	test.Nil(t, rdmacgroup.Read(fstest.MapFS{}), test.Sprint("of nothing"))
}

func ExampleRead() {
	usage := rdmacgroup.Read(cgroups(map[string]string{
		"cgroup.controllers": "cpu rdma",
		"kubepods/pod" + uid + "/" + id1 + "/rdma.current": "mlx5_0 hca_handle=2 hca_object=2000\n",
	}))
	for _, u := range usage {
		fmt.Println(u.IBDev, u.Handles, u.Objects)
	}
	// Output: mlx5_0 2 2000
}

// FuzzRead: whatever the files say, a usage is of a device that stands there.
func FuzzRead(f *testing.F) {
	f.Add("mlx5_0 hca_handle=2 hca_object=2000\n", "mlx5_0 hca_handle=max hca_object=3\n")
	f.Add("a hca_handle=-1", "a")
	f.Fuzz(func(t *testing.T, current, limit string) {
		dir := "kubepods/pod" + uid + "/" + id1
		for _, u := range rdmacgroup.Read(cgroups(map[string]string{"cgroup.controllers": "", dir + "/rdma.current": current,
			dir + "/rdma.max": limit})) {
			if u.IBDev == "" || !strings.Contains(current, u.IBDev) || u.Container != id1 {
				t.Errorf("%q makes %+v", current, u)
			}
		}
	})
}

// TestEnforced: the rdma controller of cgroup v2, of both versions side by side,
// and of v1.
func TestEnforced(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"v2": {map[string]string{
			"cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n",
		}, true},
		"v2 without":              {map[string]string{"cgroup.controllers": "cpuset cpu io memory hugetlb pids\n"}, false},
		"v2, another word":        {map[string]string{"cgroup.controllers": "cpu rdmax\n"}, false},
		"v1":                      {map[string]string{"rdma/tasks": "", "memory/tasks": ""}, true},
		"v1 without":              {map[string]string{"memory/tasks": ""}, false},
		"v1 and v2, rdma in v2":   {map[string]string{"memory/tasks": "", "unified/cgroup.controllers": "rdma\n"}, true},
		"v1 and v2, rdma in none": {map[string]string{"memory/tasks": "", "unified/cgroup.controllers": "\n"}, false},
		"nothing":                 {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := drivertest.TempDir(t)
			for file, content := range tc.files {
				path := filepath.Join(root, "sys/fs/cgroup", file)
				must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
			}
			err := rdmacgroup.Enforced(root)
			test.Eq(t, tc.want, (err == nil), test.Sprintf("error is %v", err))
			if err != nil && !strings.Contains(err.Error(), "CONFIG_CGROUP_RDMA") {
				t.Errorf("error does not say what is missing: %v", err)
			}
		})
	}
}
