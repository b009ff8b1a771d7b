package dra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/deviceinfo"
	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Driver is the DRA driver of one node.
type Driver struct {
	cfg      Config
	client   kubernetes.Interface
	host     *host
	claims   *claimstore.Store
	heldTold map[types.UID]string // of orphanLoop: why claims hold HCAs that nothing entitles them to, as it was told
	moving   sync.Mutex           // HCAs or their interfaces go into a pod or come back
	users    users                // under moving

	attacher      *attach.Attacher // of interfaces; nil for nobody
	pending       *pendingPods
	onHost        *onHost       // pods
	registered    chan struct{} // the kubelet registered us
	moved         chan struct{} // the host has changed, or what is held of it
	publisher     *publisher.Publisher
	slices        resources.Builder // of publishLoop
	allocated     allocated
	health        *observer
	now           func() time.Time                     // time.Now: differences ignore changes of the clock
	remembered    map[string][]resourceapi.DeviceTaint // what the next driver will know, of publishLoop
	recorder      *report.Recorder
	events        func(context.Context, watch.Config) (<-chan watch.Signal, func(*rdma.Snapshot)) // kernelEvents
	isUp          registration
	calls         calls
	restoreFailed atomic.Bool // the last restore was incomplete
	withheld      withheld
	started       time.Time
	helper        *kubeletplugin.Helper
	deviceInfo    deviceinfo.Store // of publishLoop
	watcher       *fsnotify.Watcher

	policy       atomic.Pointer[policy.Config] // in force
	policyFile   *policyFile
	published    atomic.Pointer[decision] // nil before the first time
	usesCounters atomic.Bool              // the slices published last have counters
	missing      missing
	requests     requests
	claimStatus  *report.ClaimStatus // nil for none
	pods         *podresources.Cache
	nri          *nri.Plugin // nil for none

	fail        context.CancelCauseFunc
	stop        context.CancelFunc
	backgrounds sync.WaitGroup
}

// New makes a driver and reads the host. It starts nothing.
func New(cfg Config, client kubernetes.Interface) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure driver: %w", err)
	}
	host, err := openHost(cfg.HostRoot)
	if err != nil {
		return nil, err
	}
	host.moves.Mover = cfg.Mover
	boot, err := claimstore.ReadBoot()
	if err != nil {
		return nil, err
	}
	claims, err := claimstore.Open(cfg.StateDir, boot)
	if err != nil {
		return nil, err
	}
	attacher, err := newAttacher(&cfg, boot.ID)
	if err != nil {
		return nil, err
	}
	observer := newObserver(*cmp.Or(cfg.Health, new(health.DefaultConfig())))
	d := &Driver{
		cfg: cfg, client: client, attacher: attacher, host: host, claims: claims, health: observer, events: kernelEvents,
		pending: newPendingPods(), onHost: newOnHost(), users: users{},
		registered: make(chan struct{}, 1), moved: make(chan struct{}, 1),
		deviceInfo: deviceinfo.Store{Dir: cfg.DeviceInfoDir},
		now:        time.Now, started: time.Now(),
		pods: &podresources.Cache{Socket: cfg.podResourcesSocket(), Driver: plan.DriverName, For: podsFor},
	}
	d.publisher = publisher.New(publisher.Config{
		Client: client, Driver: plan.DriverName, Node: cfg.NodeName, Report: d.notPublished,
		Stored: debug.FreeOSMemory, // the start needs twice the memory of what follows, and Go would keep it
	})
	d.spend(budget.Default(), clock.RealClock{})
	d.nri = d.newNRI()
	d.policy.Store(cmp.Or(cfg.Policy, policy.Default()))
	return d, nil
}

// requests are those that nobody waits for.
type requests struct {
	budget *budget.Budget
	clock  clock.WithTicker
}

// spend gives the driver what it may send. Nothing has been sent yet.
func (d *Driver) spend(limits budget.Limits, c clock.WithTicker) {
	b := budget.New(limits, c, rand.Float64)
	d.requests = requests{b, c}
	if d.cfg.ClaimStatus {
		d.claimStatus = report.NewClaimStatus(report.StatusConfig{
			Client: d.client, Pool: d.cfg.NodeName, Budget: b, Clock: c, Sys: d.host.sys,
			Snapshot: d.host.snapshot, Plan: d.claims.Get, Plans: d.plans, Attached: d.attachedTo, Yield: d.calls.yield,
		})
	}
	d.recorder = report.NewRecorder(report.Config{
		Client: d.client, Node: d.cfg.NodeName, Claims: d.cfg.ClaimEvents, Budget: b, Clock: c,
		Now: func() time.Time { return d.now() }, OnlyPod: d.onlyPod,
	})
}

// Run serves the kubelet until ctx ends or something fails that a restart may
// mend, which it returns.
func (d *Driver) Run(ctx context.Context) error {
	parent := ctx
	ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	if err := d.start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	logger := klog.FromContext(ctx)
	logger.Info("Stopping", "cause", context.Cause(ctx))
	d.shutDown(logger)
	if parent.Err() != nil {
		return nil // a signal
	}
	return context.Cause(ctx)
}

// start brings the node's files in order, registers with the kubelet and starts
// to publish. Prepared claims have their specs again before the kubelet is served.
func (d *Driver) start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	voided, err := d.claims.Void()
	if err != nil {
		logger.Error(err, "Some records of an earlier boot stay")
	}
	if len(voided) > 0 {
		logger.Info("Forgot claims of an earlier boot, the kubelet prepares them again", "claims", voided)
	}
	if err := d.claims.Rebuild(); err != nil {
		logger.Error(err, "Some records of claims are not read, or not found by their HCAs")
	}
	d.reportLimits(logger)
	if err := d.recall(); err != nil {
		logger.Error(err, "What an earlier driver knew of the HCAs is lost")
	}
	if d.cfg.Mover != nil {
		if _, err := d.host.rescan(); err != nil { // with those that it remembers, where pods have them
			return err
		}
	}
	d.health.readings = readPorts(d.host.sys, d.host.snapshot(), d.health.thresholds)
	d.judge(ctx, d.now())
	if err := d.remember(heldHCAs(d.plans(ctx))); err != nil {
		logger.Error(err, "A restart of the driver will not know HCAs that are away")
	}
	if d.watcher, err = watchDir(d.cfg.CDIDir); err != nil {
		return err
	}
	if d.policyFile, err = watchPolicy(d.cfg.PolicyFile); err != nil {
		return errors.Join(err, d.watcher.Close())
	}
	if err := d.restore(ctx); err != nil {
		logger.Error(err, "Some CDI specs are not restored")
	}
	d.sweepSockets(logger)
	// Calls that the kubelet has begun outlive ctx: shutDown stops the helper.
	if d.helper, err = kubeletplugin.Start(context.WithoutCancel(ctx), d, d.options()...); err != nil {
		d.policyFile.close()
		return errors.Join(fmt.Errorf("register with the kubelet below %q: %w", d.cfg.KubeletDir, err), d.watcher.Close())
	}
	ctx, d.stop = context.WithCancel(ctx)
	for _, loop := range []func(context.Context){
		d.followLoop,
		d.publishLoop,
		d.publisher.Run,
		d.orphanLoop,
		d.reportLoop,
		d.claimStatus.Run,
		d.nriLoop,
		d.interfaceLoop,
		d.retryLoop,
		d.recorder.Run,
		func(ctx context.Context) { d.watchSpecs(ctx, d.watcher) },
		func(ctx context.Context) { d.followPolicy(ctx, d.policyFile) },
	} {
		d.backgrounds.Go(func() { loop(ctx) })
	}
	return nil
}

// shutDown undoes start: it finishes calls in progress, since the kubelet repeats one that
// breaks off only after a minute; removes the sockets, and waits for the background work.
// The slices and the prepared claims stay.
func (d *Driver) shutDown(logger klog.Logger) {
	if left := d.calls.finish(finishTime); left > 0 {
		logger.Info("Breaking off calls of the kubelet, which repeats them", "calls", left, "after", finishTime)
	}
	d.stop()
	d.helper.Stop()
	d.backgrounds.Wait()
	d.watcher.Close()
	d.policyFile.close()
}

func (d *Driver) options() []kubeletplugin.Option {
	opts := []kubeletplugin.Option{
		kubeletplugin.DriverName(plan.DriverName),
		kubeletplugin.NodeName(d.cfg.NodeName),
		kubeletplugin.KubeClient(claimClient{d.client}),
		kubeletplugin.RegistrarDirectoryPath(d.cfg.RegistrarDir()),
		kubeletplugin.PluginDataDirectoryPath(d.cfg.PluginDir()),
		kubeletplugin.Serialize(false), // claimstore locks by device
		kubeletplugin.GRPCInterceptor(d.observe),
	}
	if d.cfg.PodUID != "" {
		opts = append(opts, kubeletplugin.RollingUpdate(d.cfg.PodUID))
	}
	return opts
}
