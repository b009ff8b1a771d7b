package cluster_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// fixtureHost makes a host with one HCA, and a second /sys/class entry as the kernel
// makes them, a link.
func fixtureHost(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, dev := range map[string]string{
		"sys/class/infiniband_verbs/uverbs0": "231:192\n",
		"sys/devices/virtual/uverbs7":        "511:7\n",
		"sys/class/infiniband_mad/umad0":     "231:0\n",
		"sys/class/infiniband_mad/issm0":     "231:64\n",
		"sys/class/misc/rdma_cm":             "10:124\n",
		"sys/class/misc/hpet":                "10:228\n",
	} {
		dir := filepath.Join(root, path)
		must.NoError(t, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "dev"), []byte(dev), 0o644)))
	}
	// Not a device: the class has a plain file beside the devices.
	abi := filepath.Join(root, "sys/class/infiniband_verbs/abi_version")
	link := filepath.Join(root, "sys/class/infiniband_verbs/uverbs7")
	must.NoError(t, errors.Join(os.WriteFile(abi, []byte("6\n"), 0o644), os.Symlink("../../devices/virtual/uverbs7", link)))
	return root
}

func TestHostRoot(t *testing.T) {
	needs.Long(t, "the test bed alone; every test of e2e has pods on a fixture host")
	o := options(t)
	o.HostRoot = fixtureHost(t)
	c := up(t, o)
	const want = `issm0 231:64 600
rdma_cm 10:124 666
umad0 231:0 600
uverbs0 231:192 666
uverbs7 511:7 666`
	const list = `cd "$0" && for f in *; do stat -c '%n %Hr:%Lr %a' $f; done`
	test.Eq(t, want, inside(t, c, "sh", "-c", list, "/dev/infiniband"), test.Sprint("the private /dev/infiniband"))
	test.Eq(t, want, inside(t, c, "sh", "-c", list, o.HostRoot+"/dev/infiniband"),
		test.Sprint("the fixture host's dev/infiniband"))
	// As the driver's pod sees it: read-only, and following changes.
	apply(t, c, `
apiVersion: v1
kind: Pod
metadata: {name: driver}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  volumes: [{name: dev, hostPath: {path: `+o.HostRoot+`/dev}}, {name: sys, hostPath: {path: `+o.HostRoot+`/sys}}]
  containers:
  - name: main
    image: localhost/busybox:testbed
    imagePullPolicy: Never
    command: [/bin/sleep, "1000000"]
    volumeMounts:
    - {name: dev, mountPath: /host/dev, readOnly: true, mountPropagation: HostToContainer}
    - {name: sys, mountPath: /host/sys, readOnly: true}
`)
	inside(t, c, "mknod", "/dev/infiniband/uverbs8", "c", "511", "8")
	test.Eq(t, "511:7\n1ff:8", inside(t, c, "kubectl", "exec", "driver", "--", "sh", "-c", "cat /host/sys/class/infiniband_verbs/uverbs7/dev; stat -c %t:%T /host/dev/infiniband/uverbs8"),
		test.Sprint("in the pod"))
	if entries, err := os.ReadDir(filepath.Join(o.HostRoot, "dev")); err != nil || len(entries) > 0 {
		t.Errorf("outside, the mount point should be empty: %v %v", entries, err)
	}
	must.NoError(t, cluster.Down(t.Context(), o, false))
	if _, err := os.Stat(filepath.Join(o.HostRoot, "dev")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the mount point is still in the fixture host: %v", err)
	}
}
