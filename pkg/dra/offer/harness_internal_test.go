package offer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/recorder"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// HCAs of the machine hgx-h100, and the first port of a RoCE card of the machine roce-sriov.
const (
	dev0 = "pci-0000-19-00-0" // mlx5_0
	dev1 = "pci-0000-29-00-0" // mlx5_1
	hca0 = "pci-0000-3b-00-0" // mlx5_0
)

// reported is a Reporter that keeps what it is told.
type reported struct{ recorder.Recorder }

func (r *reported) ServerRestored() {}

// offering is a running Offer of a fixture node.
type offering struct {
	*Offer
	*reported
	*drivertest.Node
	*drivertest.Running

	t       *testing.T
	health  health.Config
	client  kubernetes.Interface
	store   *claimstore.Store
	signals chan watch.Signal // in place of the kernel's
	config  func(*Config)
}

// offers runs the Offer of a node until the end of the test, with a policy.
func offers(t *testing.T, n *drivertest.Node, c *policy.Config, options ...func(*offering)) *offering {
	t.Helper()
	o := &offering{
		reported: &reported{}, Node: n, t: t, health: health.DefaultConfig(), client: n.Client(t),
		signals: make(chan watch.Signal), config: func(*Config) {},
	}
	o.health.Down, o.health.Up, o.health.Flaps = 50*time.Millisecond, 100*time.Millisecond, 0
	for _, option := range options {
		option(o)
	}
	o.restart(c)
	return o
}

// restart runs the Offer of the next driver.
func (o *offering) restart(c *policy.Config) {
	o.t.Helper()
	if o.Running != nil {
		o.Stop()
	}
	var err error
	o.store, err = claimstore.Open(o.StateDir, claimstore.Boot{ID: "boot"})
	must.NoError(o.t, err)
	cfg := Config{
		Client: o.client, NodeName: drivertest.NodeName, Site: plan.DefaultSite(), Policy: c,
		Report: o.reported, Now: time.Now,
	}
	cfg.Node, err = node.Open(node.Config{
		HostRoot: o.Root, Store: o.store, Health: o.health, NodeName: drivertest.NodeName, Now: time.Now,
		Source: func(context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
			return o.signals, func(*rdma.Snapshot) {}
		},
	})
	must.NoError(o.t, err)
	o.config(&cfg)
	o.Offer = New(cfg)
	o.Running = drivertest.Run(o.t, running{o.Offer})
}

// running runs an Offer and its node as a driver.
type running struct{ *Offer }

func (r running) Run(ctx context.Context) error {
	err := r.cfg.Node.Start(ctx, node.Listener{
		Reshaped: func(context.Context) error { return nil }, Changed: r.Changed,
		Health: func(context.Context, int, []health.Transition, []*plan.Plan) {},
	})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() { r.cfg.Node.Run(ctx) })
	all.Go(func() { r.Offer.Run(ctx) })
	all.Wait()
	return nil
}

// policyOf parses the lines of a configuration, which publishes at once.
func policyOf(t *testing.T, lines ...string) *policy.Config {
	t.Helper()
	c, err := policy.Parse([]byte("apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\npublishInterval: 50ms\n" +
		strings.Join(lines, "\n")))
	must.NoError(t, err)
	return c
}

// uses makes a policy the one in force, as a change of its file does.
func (o *offering) uses(c *policy.Config) {
	o.Policy.inForce.Store(c)
	o.Policy.apply()
	o.Policy.changed.Set()
}

// holds makes a claim hold its devices.
func (o *offering) holds(c *resourceapi.ResourceClaim) {
	o.t.Helper()
	p, err := plan.New(c, plan.Facts{Pool: drivertest.NodeName, Site: plan.DefaultSite()})
	must.NoError(o.t, err)
	must.NoError(o.t, o.store.Claim(o.t.Context(), p))
	o.Prepared(p)
}

// ends ends a claim.
func (o *offering) ends(c *resourceapi.ResourceClaim) {
	o.t.Helper()
	must.NoError(o.t, o.store.Remove(c.UID))
	o.Ended()
}

// looks makes the node look at the whole host, or at one HCA.
func (o *offering) looks(ibdevs ...string) {
	if len(ibdevs) == 0 {
		o.signals <- watch.Signal{Changes: rdma.Changes{All: true}}
		return
	}
	o.signals <- watch.Signal{Changes: rdma.Changes{IBDevs: rdma.NamesOf(ibdevs...)}}
}

// taints waits until a device has these taints.
func (o *offering) taints(device, want string) {
	o.t.Helper()
	drivertest.WaitTaints(o.t, o.Node, device, want)
}

// eventually waits until a condition holds.
func (o *offering) eventually(what string, holds func() bool) {
	o.t.Helper()
	drivertest.Eventually(o.t, func() error {
		if !holds() {
			return errors.New("it does not hold that " + what)
		}
		return nil
	})
}

// devices returns the names of the published devices that contain a text.
func (o *offering) devices(part string) []string {
	others := func(name string) bool { return !strings.Contains(name, part) }
	return slices.DeleteFunc(drivertest.DeviceNames(o.Slices()), others)
}

// pfs is the policy of all PFs.
func pfs(view string, more ...string) []string {
	return append([]string{
		"rules:", "- name: card", "  publish: " + view, "  selectors:",
		`  - cel: {expression: 'device.attributes["rdma.dev"].function == "pf"'}`,
	}, more...)
}
