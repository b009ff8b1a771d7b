package dra_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(&bytes.Buffer{}) // what a test wants of the log it takes from its driver
	os.Exit(m.Run())
}

// driver is a driver that runs in the test's process.
type driver struct {
	*dra.Driver
	*drivertest.Running

	t      testing.TB
	node   *drivertest.Node
	socket string // of its registration
}

// header begins each configuration file. promptly ends it: no test but those of the interval itself waits for it.
const (
	header   = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"
	promptly = "publishInterval: 50ms\n"
)

func config(n *drivertest.Node) dra.Config {
	prompt, err := policy.Parse([]byte(header + promptly))
	if err != nil {
		panic(err)
	}
	return dra.Config{
		Policy:   prompt,
		NodeName: drivertest.NodeName, HostRoot: n.Root, KubeletDir: n.Dir, StateDir: n.StateDir, CDIDir: n.CDIDir,
		Site: plan.DefaultSite(),
		Hook: plan.HookOptions{Path: "/opt/rdma.dev/bin/rdma-hook-1", OnDenied: "clamp"},
	}
}

// start runs a driver until the end of the test, and waits until the kubelet has
// registered it. An option may change its configuration.
func start(t testing.TB, n *drivertest.Node, options ...func(*dra.Config)) *driver {
	t.Helper()
	return startHearing(t, n, nil, options...)
}

// startHearing is start with events of the test's own, nil for the kernel's.
func startHearing(t testing.TB, n *drivertest.Node, events <-chan watch.Signal, options ...func(*dra.Config)) *driver {
	t.Helper()
	cfg := config(n)
	for _, o := range options {
		o(&cfg)
	}
	cfg.Spend(shortTurns(), clock.RealClock{})
	if events != nil {
		cfg.SetEvents(events)
	}
	driven, err := dra.New(cfg, n.Client(t))
	must.NoError(t, err)
	return run(t, n, driven)
}

// shortTurns are limits for tests of something else: what waits for its turn does not wait for long.
func shortTurns() budget.Limits {
	limits := budget.Default()
	limits.Spacing = 10 * time.Millisecond
	return limits
}

// run runs a driver until the end of the test, and waits until the kubelet has registered it.
func run(t testing.TB, n *drivertest.Node, driven *dra.Driver) *driver {
	t.Helper()
	have := len(n.Sockets())
	d := &driver{Driver: driven, Running: drivertest.Run(t, driven), t: t}
	t.Cleanup(d.stop)
	n.WaitForPlugins(have + 1)
	sockets := n.Sockets()
	d.node, d.socket = n, sockets[len(sockets)-1]
	return d
}

// stop stops the driver, which must end without an error, and waits until the kubelet
// has noticed.
func (d *driver) stop() {
	d.t.Helper()
	if !d.Stop() {
		return
	}
	drivertest.Eventually(d.t, func() error {
		if d.node != nil && slices.Contains(d.node.Sockets(), d.socket) {
			return fmt.Errorf("the kubelet still knows %s", d.socket)
		}
		return nil
	})
}

// prepare prepares one claim, which must succeed, and checks that its devices can
// be loaded by a container runtime. It returns their IDs.
func prepare(t testing.TB, n *drivertest.Node, c *resourceapi.ResourceClaim) []string {
	t.Helper()
	response, err := n.Prepare(drivertest.Context(t), c)
	must.NoError(t, err)
	ids, err := drivertest.Devices(response, c)
	must.NoError(t, err)
	must.NoError(t, drivertest.CheckSpecs(n.CDIDir, ids...))
	return ids
}

// refused prepares one claim, which must fail with all parts in its error.
func refused(t testing.TB, n *drivertest.Node, c *resourceapi.ResourceClaim, parts ...string) {
	t.Helper()
	response, err := n.Prepare(drivertest.Context(t), c)
	must.NoError(t, err)
	_, err = drivertest.Devices(response, c)
	must.Error(t, err, must.Sprintf("claim %s was prepared", c.Name))
	for _, part := range parts {
		test.StrContains(t, err.Error(), part, test.Sprintf("error does not say %q: %v", part, err))
	}
}

func unprepare(t testing.TB, n *drivertest.Node, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	response, err := n.Unprepare(drivertest.Context(t), claims...)
	must.NoError(t, err)
	for _, c := range claims {
		answer, ok := response.Claims[string(c.UID)]
		test.True(t, ok && answer.Error == "", test.Sprintf("unprepare claim %s: %v", c.Name, answer))
	}
}

// wantFiles checks that specs and records are just those of the claims.
func wantFiles(t testing.TB, n *drivertest.Node, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	specs, records := []string{}, []string{}
	for _, c := range claims {
		specs = append(specs, "rdma.dev-claim_"+string(c.UID)+".json")
		records = append(records, string(c.UID)+".json")
	}
	// While the driver compares the specs of other claims with the host, there may be a
	// file in the making; it does not stay.
	got := slices.DeleteFunc(drivertest.Files(t, n.CDIDir), drivertest.Temporary)
	test.SliceEqOp(t, specs, got, test.Sprint("the CDI directory"))
	drivertest.Eventually(t, func() error {
		if files := drivertest.Files(t, n.CDIDir); slices.ContainsFunc(files, drivertest.Temporary) {
			return fmt.Errorf("a file in the making stays: %v", files)
		}
		return nil
	})
	test.SliceEqOp(t, records, drivertest.Files(t, n.RecordDir()), test.Sprint("the records"))
}
