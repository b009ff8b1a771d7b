package offer

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/deviceinfo"
	"github.com/rdma-dev/dra-driver-rdma/internal/wake"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// Config is what an Offer needs.
type Config struct {
	Client   kubernetes.Interface
	Node     *node.Node
	NodeName string
	// Site is what every claim of the node gets, unless the policy says otherwise.
	Site plan.Site
	// Policy is in force until its file changes, nil for the default. PolicyFile is "" for none.
	Policy     *policy.Config
	PolicyFile string
	// DeviceInfoDir is where CNI plugins look for device information files, "" for none.
	DeviceInfoDir string
	// RuntimeCDI confirms that the container runtime applies CDI devices.
	RuntimeCDI bool
	Troubles   *apiclient.Troubles
	Metrics    *metrics.Instruments
	Report     Reporter
	Now        func() time.Time
}

// Reporter takes what people should know. Both record on the status page alone.
type Reporter interface {
	Note(reason, object, format string, args ...any)
	Warn(reason, object string, err error)
}

// Offer decides what is published. It is safe for use by several goroutines.
type Offer struct {
	cfg        Config
	changed    wake.Signal // something that the decision was made from
	registered wake.Signal // the kubelet registered the driver
	policy     atomic.Pointer[policy.Config]
	file       *policyFile
	last       atomic.Pointer[Decision] // nil before the first one
	gate       gate
	missing    missing
	publisher  *publisher.Publisher
	slices     resources.Builder // of publish
	deviceInfo deviceinfo.Store  // of publish
}

// New returns an Offer that publishes nothing before Run.
func New(cfg Config) *Offer {
	o := &Offer{
		cfg: cfg, changed: wake.NewSignal(), registered: wake.NewSignal(), deviceInfo: deviceinfo.Store{Dir: cfg.DeviceInfoDir},
	}
	o.gate.cfg = &o.cfg
	o.publisher = publisher.New(publisher.Config{
		Client: cfg.Client, Driver: plan.DriverName, Node: cfg.NodeName, Report: o.notPublished,
		Stored: debug.FreeOSMemory, // the start needs twice the memory of what follows, and Go would keep it
	})
	if cfg.Policy == nil {
		cfg.Policy = policy.Default()
	}
	o.policy.Store(cfg.Policy)
	cfg.Node.SetTimes(cfg.Policy.HealthTimes)
	return o
}

// Start watches the configuration file. It comes before Run.
func (o *Offer) Start() (err error) {
	o.file, err = watchPolicy(o.cfg.PolicyFile)
	return err
}

// Close ends what Start began.
func (o *Offer) Close() { o.file.close() }

// Run publishes until ctx ends.
func (o *Offer) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, loop := range []func(context.Context){o.publishLoop, o.publisher.Run, o.followPolicy} {
		all.Go(func() { loop(ctx) })
	}
}

// Changed has the offer decide again: the host or its health has changed.
func (o *Offer) Changed() { o.changed.Set() }

// Registered has the offer publish again: a kubelet that has just started has wiped the slices of its node.
func (o *Offer) Registered() { o.registered.Set() }

// Withheld returns why nothing is published, nil if it is.
func (o *Offer) Withheld() error { return o.gate.closed() }

// Facts implements claims.Offer.
func (o *Offer) Facts(ctx context.Context, host *node.Host, claim *resourceapi.ResourceClaim) plan.Facts {
	policy, decided := o.policy.Load(), o.Decision(ctx)
	facts := plan.Facts{
		Pool: o.cfg.NodeName, Site: siteOf(o.cfg.Site, policy), Groups: decided.groups,
		Networks: &plan.Networks{IPAM: policy.IPAM(), ResourceNames: decided.resourceNames},
	}
	if policy.Partitioning() {
		facts.Cards = map[string][]string{}
		for _, r := range plan.Results(claim) {
			for _, hca := range decided.hcasOf(r.Device) {
				facts.Cards[hca] = host.Cards(hca)
			}
		}
	}
	return facts
}

// Prepared implements claims.Offer. If some devices of the claim are no longer published that way, the policy has
// changed since they were allocated: the next decision counts the claim.
func (o *Offer) Prepared(p *plan.Plan) {
	published := o.last.Load()
	if published == nil {
		return
	}
	unpublished := func(d plan.Device) bool { return published.Devices[d.Device] == nil }
	if slices.ContainsFunc(p.Devices, unpublished) {
		o.changed.Set()
	}
}

// Ended implements claims.Offer. A claim may have been the reason why something is not published as the policy says.
func (o *Offer) Ended() {
	if published := o.last.Load(); published != nil && published.deviates {
		o.changed.Set()
	}
}

// Taints returns the taints of HCAs by name, under the policy in force.
func (o *Offer) Taints(view *health.View) map[string][]resourceapi.DeviceTaint {
	by := health.Policy{Effects: o.policy.Load().TaintEffects(), Informational: !o.missing.has(gateNone)}
	out := map[string][]resourceapi.DeviceTaint{}
	for _, name := range view.Faulty() {
		if taints := view.Taints(name, by); taints != nil {
			out[name] = taints
		}
	}
	return out
}
