package vm_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// onNode runs the tests of a package in a guest that is the node of a control plane on this
// host, with the driver's chart installed: emulated, a control plane would take longer to start
// than most tests take. The tests find it by cluster.Options.Join.
func onNode(t *testing.T, pkg string, c vm.Cmd, values ...string) {
	t.Helper()
	v := vmtest.Open(t)
	bin, _ := clusterPrograms(t)
	checkout, err := deploy.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	archive := driverImage(t, checkout)
	cp, kubelet := controlPlane(t)
	args := []string{"--wait=false"} // for its pods, which come with the node
	for _, value := range values {
		args = append(args, "--set", value)
	}
	if err := checkout.Install(t.Context(), cp, "", args...); err != nil {
		t.Fatal(err)
	}
	// Emulated, a probe takes five seconds: two programs that begin. What probes do is proven on the embedded cluster.
	const rarely = `{"name": "driver", "readinessProbe": {"periodSeconds": 120}, "livenessProbe": {"periodSeconds": 120}}`
	if out, err := cp.Output(t.Context(), "kubectl", "--namespace", deploy.Namespace, "patch", "daemonset", deploy.Release,
		`--patch={"spec": {"template": {"spec": {"containers": [`+rarely+`]}}}}`,
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The guest has a cache of its own, for the locks and the state, with the host's
	// programs in it.
	const cache = "/root/cache"
	c.Dir, c.MemoryMB, c.CPUs, c.Timeout = checkout.Path("test", "vm"), 4096, 2, time.Hour
	c.Uplink = &vm.Uplink{Address: "10.96.0.15/24", Server: cluster.ServiceIP + ":443", Host: cp.Address(), Listen: kubelet, Port: 10250}
	c.Links = map[string]string{filepath.Join(cache, "bin"): bin}
	for _, dir := range []string{string(checkout), bin, cp.Dir(), filepath.Dir(v.Tools()), filepath.Dir(archive)} {
		c.Shares = append(c.Shares, vm.Share{Path: dir, ReadOnly: true})
	}
	c.Env = append(c.Env, "TOOLS_ARCHIVE="+v.Tools(), "DRIVER_ARCHIVE="+archive, "DRA_RDMA_CACHE="+cache, "CONTROL_PLANE="+cp.Dir())
	vmtest.Run(t, v, pkg, c)
}

// controlPlane starts a control plane on this host. It also returns the address where the control plane reaches the
// kubelet of its node.
func controlPlane(t *testing.T) (cp *cluster.ControlPlane, kubelet string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kubelet = l.Addr().String()
	l.Close() // QEMU takes the port
	cp, err = cluster.StartControlPlane(t.Context(), t.TempDir(), cluster.Options{NodesAt: []string{kubelet}, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := cp.Manage(); err != nil {
		t.Fatal(err)
	}
	return cp, kubelet
}
