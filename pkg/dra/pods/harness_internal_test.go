package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/recorder"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Devices of the machine roce-sriov, and their interfaces.
const (
	pf       = "pci-0000-3b-00-0"
	pfNetdev = "ens1f0np0"
	vf       = "pci-0000-3b-00-2"
	vfNetdev = "ens1f0v0"
	vf2      = "pci-0000-3b-00-3"
)

// onlyHCA is the one of the machine exclusive-netns, and onlyNetdev its interface.
const (
	onlyHCA    = "pci-0000-3b-00-0"
	onlyNetdev = "ens1np0"
)

// prepared has the plans of prepared claims. It implements Claims and Reservations without an API server.
type prepared struct {
	facts plan.Facts
	renew func([]*plan.Plan)

	mu     sync.Mutex
	plans  map[types.UID]*plan.Plan
	claims map[types.UID]*resourceapi.ResourceClaim // as the API server has them
	silent error                                    // why the API server does not answer, nil if it does
	delay  time.Duration                            // of each answer of the API server
}

func (p *prepared) PlansOf(_ context.Context, pods ...types.UID) (plans []*plan.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, made := range p.plans {
		if slices.ContainsFunc(made.Pods, func(pod types.UID) bool { return slices.Contains(pods, pod) }) {
			plans = append(plans, made)
		}
	}
	return plans
}

func (p *prepared) Learn(
	ctx context.Context, pods []claims.Pod, concerns func(*plan.Plan) bool,
) (unanswered []claims.Pod, err error) {
	silent := p.answer(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, made := range p.plans {
		alien := func(pod claims.Pod) bool { return !claims.MayShare(made, pod) }
		sharing := slices.DeleteFunc(slices.Clone(pods), alien)
		switch {
		case len(sharing) == 0 || !concerns(made):
		case silent != nil:
			unanswered, err = append(unanswered, sharing...), silent
		default:
			p.plans[uid] = made.Reserved(p.claims[uid], made.Pods)
		}
	}
	return unanswered, err
}

// answer waits for an answer of the API server until ctx ends, and returns why there is none.
func (p *prepared) answer(ctx context.Context) error {
	p.mu.Lock()
	silent, delay := p.silent, p.delay
	p.mu.Unlock()
	if delay == 0 {
		return silent
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(delay):
		return silent
	}
}

func (p *prepared) Renew(ctx context.Context, plans []*plan.Plan) error {
	if ctx.Err() == nil {
		p.renew(plans)
	}
	return ctx.Err()
}

// prepares makes the plan of a claim.
func (p *prepared) prepares(t testing.TB, c *resourceapi.ResourceClaim) *plan.Plan {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	made, err := plan.New(c, p.facts)
	must.NoError(t, err)
	p.plans[c.UID], p.claims[c.UID] = made, c
	return made
}

// reserves makes the API server have the claim reserved for these pods.
func (p *prepared) reserves(c *resourceapi.ResourceClaim, pods ...nri.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims[c.UID] = reserved(drivertest.MadeAnew(c, 0), pods...)
}

// unprepares ends a claim.
func (p *prepared) unprepares(c *resourceapi.ResourceClaim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.plans, c.UID)
}

// isSilent makes the API server give no answers for a reason, or answer again.
func (p *prepared) isSilent(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = reason
}

// isSlow delays each answer of the API server.
func (p *prepared) isSlow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// reported is a Reporter that keeps what it is told.
type reported struct{ recorder.Recorder }

func (r *reported) ContainerStarted(types.UID) {}

// about returns the messages of the events of a pod with a reason.
func (r *reported) about(pod nri.Pod, reason event.Reason) (messages []string) {
	for _, e := range r.Events() {
		if e.Pod == types.UID(pod.UID) && e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// says checks that an event of a pod has all parts.
func (r *reported) says(t testing.TB, pod nri.Pod, reason event.Reason, parts ...string) {
	t.Helper()
	lacks := func(message string) bool { return slices.ContainsFunc(parts, notIn(message)) }
	messages := r.about(pod, reason)
	test.True(t, slices.ContainsFunc(messages, func(m string) bool { return !lacks(m) }),
		test.Sprintf("no event %s of pod %s says %q: %q", reason.Reason, pod.Name, parts, messages))
}

func notIn(text string) func(string) bool {
	return func(part string) bool { return !strings.Contains(text, part) }
}

// served has the Pods of a fixture host, which run without a kubelet and an API server.
type served struct {
	*Pods
	*prepared
	*reported
	log drivertest.Log

	t      *testing.T
	ctx    context.Context // with the log
	host   *drivertest.Host
	mover  *drivertest.Mover     // nil if HCAs do not move
	net    *podnettest.Namespace // the host's, nil if the driver attaches no interfaces
	ipam   string                // the directory of CNI plugins
	dir    string
	config func(*Config)
}

// serve makes the Pods of a host with the hardware of a fixture machine.
func serve(t *testing.T, machine string, options ...func(*served)) *served {
	t.Helper()
	s := &served{
		prepared: &prepared{plans: map[types.UID]*plan.Plan{}, claims: map[types.UID]*resourceapi.ResourceClaim{}},
		reported: &reported{}, t: t, host: drivertest.NewHost(t, machine), dir: drivertest.TempDir(t),
		config: func(*Config) {},
	}
	s.renew = func([]*plan.Plan) {}
	s.facts = plan.Facts{Pool: drivertest.NodeName, Site: plan.DefaultSite(), Networks: &plan.Networks{}}
	s.ctx = klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&s.log))))
	for _, o := range options {
		o(s)
	}
	s.restart()
	return s
}

// exclusive moves the HCAs of the host.
func exclusive(s *served) { s.mover = drivertest.NewMover(s.t, s.host) }

// attaching gives the host interfaces in a namespace of the real kernel.
func attaching(netdevs ...string) func(*served) {
	return func(s *served) {
		s.net = podnettest.New(s.t)
		for _, name := range netdevs {
			s.net.Wire(name)
		}
	}
}

// leasing makes claims get addresses of a CNI plugin.
func leasing(plugins, config string) func(*served) {
	return func(s *served) {
		s.ipam, s.facts.Networks.IPAM = plugins, map[string]json.RawMessage{"roce": json.RawMessage(config)}
	}
}

// restart makes the Pods of the next driver.
func (s *served) restart() {
	s.t.Helper()
	store, err := claimstore.Open(filepath.Join(s.dir, "state"), claimstore.Boot{ID: "boot"})
	must.NoError(s.t, err)
	of := node.Config{HostRoot: s.host.Root, Store: store, Health: health.DefaultConfig(), Now: time.Now}
	if s.mover != nil {
		of.Mover = s.mover
	}
	cfg := Config{Claims: s.prepared, Reservations: s.prepared, NodeName: drivertest.NodeName, Report: s.reported}
	cfg.Node, err = node.Open(of)
	must.NoError(s.t, err)
	must.NoError(s.t, cfg.Node.Start(s.ctx, node.Listener{
		Reshaped: func(context.Context) error { return nil }, Changed: func() {},
		Health: func(context.Context, int, []health.Transition, []*plan.Plan) {},
	}))
	if s.net != nil {
		cfg.Host = podnet.On(s.net.Namespace, "rdma.dev", []netip.Addr{})
		cfg.Attacher, err = attach.New(cfg.Host, &podnet.IPAM{Owner: "rdma.dev", Dir: s.ipam}, s.interfaceDir(), "boot")
		must.NoError(s.t, err)
	}
	s.config(&cfg)
	s.Pods = New(cfg)
}

func (s *served) interfaceDir() string { return filepath.Join(s.dir, "interfaces") }

// runs runs the Pods until stop or the end of the test, which may be a bubble of synctest.
func (s *served) runs(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// connects runs the Pods, and waits until the runtime has their plugin.
func (s *served) connects(t *testing.T) (stop func()) {
	t.Helper()
	stop = s.runs(t)
	s.connected()
	return stop
}

// connected waits until the runtime has the driver's plugin.
func (s *served) connected() {
	s.t.Helper()
	eventually(s.t, "the runtime has the plugin", func() bool { return *s.Connected() && s.Trouble() == nil })
}

// starts starts a pod, which must succeed.
func (s *served) starts(pod nri.Pod) {
	s.t.Helper()
	must.NoError(s.t, s.Started(s.ctx, pod))
}

// waits starts a pod, which must fail and say why, to the runtime and in an event of the pod.
func (s *served) waits(pod nri.Pod, parts ...string) {
	s.t.Helper()
	err := s.Started(s.ctx, pod)
	must.Error(s.t, err, must.Sprintf("pod %s was started", pod.Name))
	for _, part := range parts {
		test.ErrorContains(s.t, err, part)
	}
	s.says(s.t, pod, event.MoveFailed, parts...)
}

// noRecords checks that no interface of a pod is recorded.
func (s *served) noRecords() {
	s.t.Helper()
	left, err := filepath.Glob(filepath.Join(s.interfaceDir(), "*"))
	test.True(s.t, err == nil && len(left) == 0, test.Sprintf("records that are left: %v, %v", left, err))
}

// claimOf makes a claim, the n-th of a test, that is reserved for a pod.
func claimOf(n int, pod nri.Pod, devices ...string) *resourceapi.ResourceClaim {
	return reserved(drivertest.Claim(n, devices...), pod)
}

func reserved(c *resourceapi.ResourceClaim, pods ...nri.Pod) *resourceapi.ResourceClaim {
	for _, pod := range pods {
		c = drivertest.ReservedFor(c, pod.UID)
	}
	return c
}

func podNamed(name string) nri.Pod {
	return nri.Pod{UID: "uid-" + name, Namespace: "team-a", Name: name, Netns: "/run/netns/" + name}
}

// inside is a pod with a network namespace of the real kernel.
func inside(t *testing.T, name string) (nri.Pod, *podnettest.Namespace) {
	ns := podnettest.New(t)
	pod := podNamed(name)
	pod.Netns = ns.Path()
	return pod, ns
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		if !holds() {
			return fmt.Errorf("it does not hold that %s", what)
		}
		return nil
	})
}
