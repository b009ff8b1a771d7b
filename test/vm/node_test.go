package vm_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// onNode runs the tests of a package in a guest that is the node of a control plane on this
// host, with the driver's chart installed: emulated, a control plane would take longer to start
// than most tests take. The tests find it by cluster.Options.Join. The options are the control plane's; the node needs
// the same feature gates.
func onNode(t *testing.T, pkg string, o cluster.Options, c vm.Cmd, values ...string) {
	t.Helper()
	v := vmtest.Open(t)
	n := newNodesWith(t, v, o, 1, values)
	c.Uplink, c.Dir, c.Links = n.uplink(0), n.dir, n.links()
	c.MemoryMB, c.CPUs, c.Timeout = 4096, 2, time.Hour
	if needs.IsLong() {
		c.Timeout = 2 * time.Hour // TestKills alone may take one
	}
	c.Shares = append(c.Shares, n.shares(v)...)
	c.Env = append(c.Env, "TOOLS_ARCHIVE="+v.Tools(), "DRIVER_ARCHIVE="+n.image, guestCache,
		"CONTROL_PLANE="+n.Dir())
	vmtest.Run(t, v, pkg, c)
}

// nodes is a control plane on this host for nodes that are guests, with the driver's chart installed, and what the
// guests need.
type nodes struct {
	*cluster.ControlPlane
	kubelets []string // where the control plane reaches them, from node 1 on
	image    string   // the driver's
	checkout deploy.Checkout
	dir      string // the guests' working directory
	bin      string // the host's cache of programs
}

// The guests have a cache of their own, for the locks and the state, with the host's programs in it.
const (
	cacheInGuest = "/root/cache"
	guestCache   = "DRA_RDMA_CACHE=" + cacheInGuest
)

// newNodes starts a control plane for so many nodes. Values are the chart's, as helm's --set takes them.
func newNodes(t *testing.T, v *vm.VM, count int, values []string) *nodes {
	t.Helper()
	return newNodesWith(t, v, cluster.Options{}, count, values)
}

// newNodesWith is newNodes with options of the control plane.
func newNodesWith(t *testing.T, v *vm.VM, o cluster.Options, count int, values []string) *nodes {
	t.Helper()
	bin, _ := clusterPrograms(t)
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	n := &nodes{image: builtImage(t, checkout), checkout: checkout, dir: checkout.Path("test", "vm"), bin: bin}
	for range count {
		n.kubelets = append(n.kubelets, freeAddress(t))
	}
	o.NodesAt, o.Progress = n.kubelets, t.Output()
	n.ControlPlane, err = cluster.StartControlPlane(t.Context(), t.TempDir(), o)
	must.NoError(t, err)
	t.Cleanup(func() {
		n.wantAllUsable(t)
		test.NoError(t, n.Stop())
	})
	must.NoError(t, n.Manage())
	n.install(t, values)
	return n
}

// wantAllUsable wants that no container was said to be unable to use its HCA: a false alarm is the worst fault of that
// check.
func (n *nodes) wantAllUsable(t *testing.T) {
	t.Helper()
	const reason = "RDMANotUsable"
	out, err := n.Output(context.Background(), "kubectl", "get", "events", "--all-namespaces", "--field-selector=reason="+reason)
	if err != nil || strings.Contains(out, reason) {
		t.Errorf("events of containers that cannot use their HCA: %v\n%s", err, out)
	}
}

// install installs the chart.
func (n *nodes) install(t *testing.T, values []string) {
	t.Helper()
	args := []string{"--wait=false"} // for its pods, which come with the nodes
	for _, value := range values {
		args = append(args, "--set", value)
	}
	must.NoError(t, n.checkout.Install(t.Context(), n, "", args...))
	// Emulated, a probe takes five seconds: two programs that begin. What probes do is proven on the embedded cluster.
	const rarely = `{"name": "driver", "readinessProbe": {"periodSeconds": 120}, "livenessProbe": {"periodSeconds": 120}}`
	n.kubectl(t, "--namespace", deploy.Namespace, "patch", "daemonset", deploy.Release,
		`--patch={"spec": {"template": {"spec": {"containers": [`+rarely+`]}}}}`)
}

// kubectl runs kubectl as an administrator. It must succeed.
func (n *nodes) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.Output(t.Context(), "kubectl", args...)
	must.NoError(t, err, must.Sprintf("kubectl %q: %v\n%s", args, err, out))
	return out
}

// uplink connects the i-th guest, from 0 on, with the control plane.
func (n *nodes) uplink(i int) *vm.Uplink {
	link := uplinkTo(n.ControlPlane)
	link.Forwards = map[string]int{n.kubelets[i]: 10250}
	return link
}

// uplinkTo connects a guest with an API server of this host.
func uplinkTo(server *cluster.ControlPlane) *vm.Uplink {
	return &vm.Uplink{Address: "10.96.0.15/24", Server: cluster.ServiceIP + ":443", Host: server.Address()}
}

func (n *nodes) links() map[string]string {
	return map[string]string{filepath.Join(cacheInGuest, "bin"): n.bin}
}

// shares are the directories that a guest needs.
func (n *nodes) shares(v *vm.VM) (shares []vm.Share) {
	for _, dir := range []string{string(n.checkout), n.bin, n.Dir(), filepath.Dir(v.Tools())} {
		shares = append(shares, vm.Share{Path: dir, ReadOnly: true})
	}
	return shares
}

// freeAddress is an address of this host on which QEMU can listen.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close() // QEMU takes the port
	return l.Addr().String()
}
