// Package offer decides what the driver publishes, and publishes it.
//
// One goroutine makes a decision ([policy.Result]) from a [node.View] and the present policy. It makes ResourceSlices
// from the decision (package resources), and passes them to a publisher that writes them to the API server. It decides
// again after each change of the host, of its health or of the policy. It also decides again after the end of a claim
// that affected the decision, and when the API server turns out to lack a feature.
//
// Nothing is published while the container runtime would start containers without their CDI devices. If the API server
// lacks a feature, the driver omits the feature until it restarts.
//
// A new claim gets what the last decision says ([Offer.Facts]). The package also reports the health of the devices to
// the kubelet.
package offer

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/deviceinfo"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Config configures an Offer.
type Config struct {
	Client   kubernetes.Interface
	Node     *node.Node
	NodeName string
	// Site is the default for every claim of the node. The policy overrides it.
	Site plan.Site
	// Policy is the policy until its file changes, nil for the default. PolicyFile is "" for none.
	Policy     *policy.Config
	PolicyFile string
	// PolicyRefused is why PolicyFile gives no Policy, nil if it does.
	PolicyRefused error
	// DeviceInfoDir is the directory in which CNI plugins look for device information files, "" for none.
	DeviceInfoDir string
	// NodeFeatureDir is the directory of NFD's feature files, for the label of the node, "" for none.
	NodeFeatureDir string
	// RuntimeCDI confirms that the container runtime applies CDI devices.
	RuntimeCDI bool
	Troubles   *apiclient.Troubles
	Metrics    *metrics.Instruments
	Report     Reporter
	Now        func() time.Time
}

// Reporter takes reports for people.
type Reporter interface {
	Record(event.Event)
	// Note and Warn record on the status page only.
	Note(reason, object, format string, args ...any)
	Warn(reason, object string, err error)
	// ServerRestored means that the API server may not have what was written to it.
	ServerRestored()
}

// Offer decides what is published, and publishes it. It is safe for concurrent use.
type Offer struct {
	Policy *PolicyFile // New makes it, and Run follows the file

	cfg        Config
	changed    loop.Signal              // an input of the decision has changed
	decided    loop.Signal              // there is a new decision
	registered loop.Signal              // the node object is to be read again: the kubelet may have registered the driver
	last       atomic.Pointer[Decision] // nil before the first decision
	object     nodeObject
	missing    missing
	publisher  *publisher.Publisher
	slices     resources.Builder // only publish uses it
	deviceInfo deviceinfo.Store  // only publish uses it
	said       notices           // only publishLoop uses it
	reach      reach
}

// New returns an Offer. It starts no goroutine before Run.
func New(cfg Config) *Offer {
	o := &Offer{
		cfg: cfg, changed: loop.NewSignal(), decided: loop.NewSignal(), registered: loop.NewSignal(),
		deviceInfo: deviceinfo.Store{Dir: cfg.DeviceInfoDir}, reach: reach{client: cfg.Client}, said: notices{},
	}
	o.object.cfg = &o.cfg
	o.Policy = &PolicyFile{cfg: &o.cfg, changed: o.changed}
	o.publisher = publisher.New(publisher.Config{
		Client: cfg.Client, Driver: rdma.Domain, Node: cfg.NodeName, Report: o.notPublished,
		Stored: debug.FreeOSMemory, // the start needs twice the memory of later work, and Go would keep it
		Lost:   func(ctx context.Context, l publisher.Loss) { reportLoss(ctx, cfg.Report, l) },

		NodeReplaced: o.registered.Set, ServerRestored: cfg.Report.ServerRestored,
	})
	if cfg.PolicyRefused != nil {
		cfg.Policy = policy.None()
		o.Policy.refused.Store(&Refusal{cfg.PolicyRefused, true})
	}
	o.Policy.inForce.Store(cmp.Or(cfg.Policy, policy.Default()))
	o.Policy.apply()
	return o
}

// Run publishes until ctx ends.
func (o *Offer) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, loop := range []func(context.Context){
		o.publishLoop, o.publisher.Run, o.Policy.follow, o.reach.loop, o.labelLoop,
	} {
		all.Go(func() { loop(ctx) })
	}
}

// Changed starts a new decision after a change of the host or of its health. It does not block.
func (o *Offer) Changed() { o.changed.Set() }

// Registered starts a new publication, because a kubelet that has just started deletes the slices of its node. It does
// not block.
func (o *Offer) Registered() { o.registered.Set() }

// Facts implements claims.Offer.
func (o *Offer) Facts(ctx context.Context, host *node.Host, claim *resourceapi.ResourceClaim) plan.Facts {
	policy, decided := o.Policy.inForce.Load(), o.Decision(ctx)
	facts := plan.Facts{
		Pool: o.cfg.NodeName, Site: siteOf(o.cfg.Site, policy), Groups: decided.groups, Marks: decided.marks,
		Networks: o.object.blocks.networks(policy, decided.networks), Refused: o.Policy.Refused().new(),
	}
	if len(facts.Networks.NoIPAM) > 0 && o.object.blocks.stale(o.cfg.Now()) {
		o.registered.Set() // reads the node object again, so that a later try of the kubelet succeeds
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
// changed since the allocation: the next decision takes the claim into account.
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

// Ended implements claims.Offer. The claim may have been the reason for a deviation from the policy.
func (o *Offer) Ended() {
	if published := o.last.Load(); published != nil && published.deviates {
		o.changed.Set()
	}
}

// HealthPolicy returns how conditions become taints under the present policy, for this API server.
func (o *Offer) HealthPolicy() health.Policy { return o.missing.healthPolicy(o.Policy.inForce.Load()) }
