package dra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/pods"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Driver is the DRA driver of one node. It makes the parts of the driver and connects them with the kubelet.
type Driver struct {
	cfg     Config
	client  kubernetes.Interface
	node    *node.Node
	store   *claimstore.Store
	report  report.Reporter
	offer   *offer.Offer
	claims  *claims.Claims
	pods    *pods.Pods
	kubelet kubelet
	given   func() []attach.Address // the addresses that pods have
	fail    context.CancelCauseFunc // ends Run; set by Run
}

// New makes a driver and reads the host. It starts no goroutine.
func New(cfg Config, client kubernetes.Interface) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure driver: %w", err)
	}
	cfg.setDefaults()
	boot, err := claimstore.ReadBoot()
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, client: client, kubelet: newKubelet(&cfg)}
	if d.store, err = claimstore.Open(cfg.StateDir, boot); err != nil {
		return nil, err
	}
	d.node, err = node.Open(node.Config{
		HostRoot: cfg.HostRoot, Sys: cfg.sys, Store: d.store, Mover: cfg.Mover, Genl: cfg.Genl, Health: *cfg.Health,
		NodeName: cfg.NodeName, LeafFiles: cfg.LeafFiles, Events: cfg.Events, Source: cfg.source, Now: cfg.now,
	})
	if err != nil {
		return nil, err
	}
	var attacher *attach.Attacher // nil if the driver attaches no interfaces
	if cfg.Interfaces != nil {
		dir := filepath.Join(cfg.PluginDir(), "interfaces")
		ipam := cmp.Or(cfg.IPAM, &podnet.IPAM{Owner: rdma.Domain})
		if attacher, err = attach.New(cfg.Interfaces, ipam, dir, boot.ID); err != nil {
			return nil, err
		}
	}
	d.given = func() []attach.Address { return nil }
	if attacher != nil {
		d.given = attacher.Addresses
	}
	d.connect(attacher)
	return d, nil
}

// connect makes the parts that depend on the node. Each part gets only the other parts that it needs.
func (d *Driver) connect(attacher *attach.Attacher) {
	cfg := &d.cfg
	d.report = report.New(report.Config{
		Client: d.client, Node: d.node, NodeName: cfg.NodeName, Budget: cfg.budget, Clock: cfg.clock, Now: cfg.now,
		ClaimStatus: cfg.ClaimStatus, ClaimEvents: cfg.ClaimEvents, LimitsIgnored: cfg.Hook.OnDenied == string(args.Ignore),
		OnlyPod: d.onlyPod, Attached: attachedBy(attacher), Memory: d.store.Memory(), Yield: d.kubelet.calls.yield,
	})
	d.offer = offer.New(offer.Config{
		Client: d.client, Node: d.node, NodeName: cfg.NodeName,
		Site: cfg.Site, Policy: cfg.Policy, PolicyFile: cfg.PolicyFile, PolicyRefused: cfg.PolicyRefused,
		DeviceInfoDir: cfg.DeviceInfoDir, NodeFeatureDir: cfg.NodeFeatureDir, RuntimeCDI: cfg.RuntimeCDI,
		Troubles: cfg.Troubles, Metrics: cfg.Metrics,
		Report: d.report, Now: cfg.now,
	})
	d.claims = claims.New(claims.Config{
		Client: d.client, Node: d.node, Store: d.store, Offer: d.offer, Report: d.report,
		NodeName: cfg.NodeName, HostRoot: cfg.HostRoot, PodUID: cfg.PodUID, CDIDir: cfg.CDIDir,
		PodResources: cfg.podResourcesSocket(), DeviceMetadata: cfg.DeviceMetadata, Interfaces: attacher != nil,
		Hook: cfg.Hook, Metrics: cfg.Metrics, Budget: cfg.budget, Clock: cfg.clock,
		Fail: func(err error) { d.fail(err) },
	})
	d.pods = pods.New(pods.Config{
		Node: d.node, Claims: d.claims, Reservations: d.claims.Reservations,
		NRISocket: cfg.NRISocket, NodeName: cfg.NodeName, PodUID: cfg.PodUID,
		Attacher: attacher, Host: cfg.Interfaces, Metrics: cfg.Metrics, Report: d.report,
	})
	if cfg.NRISocket != "" {
		d.claims.Use(d.pods)
	}
}

// Run serves the kubelet until ctx ends, and then returns nil. It returns an error if something fails that a restart
// may repair.
func (d *Driver) Run(ctx context.Context) error {
	parent := ctx
	ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	if err := d.start(ctx); err != nil {
		return err
	}
	defer d.offer.Policy.Close()
	defer d.claims.Close()
	// Calls in progress outlive ctx. The helper stops only after they have finished, or after finishTime.
	helper, err := kubeletplugin.Start(context.WithoutCancel(ctx), d, d.options()...)
	if err != nil {
		return fmt.Errorf("register with the kubelet below %q: %w", d.cfg.KubeletDir, err)
	}
	background, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, loop := range []func(context.Context){
		d.node.Run,
		d.offer.Run,
		d.claims.WatchSpecs,
		d.claims.Orphans.Sweep,
		d.claims.Reservations.FollowHook,
		d.pods.Run,
		d.report.Recorder.Run,
		d.report.ClaimStatus.Run,
	} {
		all.Go(func() { loop(background) })
	}
	<-ctx.Done()
	logger := klog.FromContext(ctx)
	logger.Info("Stopping", "cause", context.Cause(ctx))
	// The kubelet repeats an interrupted call only after a minute, so calls in progress may finish first. The slices
	// and the prepared claims stay.
	if left := d.kubelet.calls.finish(finishTime); left > 0 {
		logger.Info("Breaking off calls of the kubelet, which repeats them", "calls", left, "after", finishTime)
	}
	stop()
	helper.Stop()
	all.Wait()
	if parent.Err() != nil {
		return nil // a signal ended the driver
	}
	return context.Cause(ctx)
}

// start repairs the node's files, and starts the parts. It restores the specs of prepared claims before the kubelet is
// served.
func (d *Driver) start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	voided, err := d.store.Void()
	if err != nil {
		logger.Error(err, "Some records of an earlier boot stay")
	}
	if len(voided) > 0 {
		logger.Info("Forgot claims of an earlier boot, the kubelet prepares them again", "claims", voided)
	}
	if err := d.store.Rebuild(); err != nil {
		logger.Error(err, "Some records of claims are not read, or not found by their HCAs")
	}
	d.logLimits(logger)
	err = d.node.Start(ctx, node.Listener{Reshaped: d.reshaped, Changed: d.offer.Changed, Health: d.healthChanged})
	if err != nil {
		return err
	}
	if err := d.offer.Policy.Start(); err != nil {
		return err
	}
	if err := d.claims.Start(ctx); err != nil {
		d.offer.Policy.Close()
		return err
	}
	d.sweepSockets(logger)
	return nil
}

// reshaped adapts the specs and the status of claims to a change of the host.
func (d *Driver) reshaped(ctx context.Context) error {
	err := d.claims.Restore(ctx)
	d.report.HostChanged()
	return err
}

// healthChanged reports the transitions in the health of HCAs as events, in the status of claims and in metrics.
func (d *Driver) healthChanged(_ context.Context, mayFollow int, transitions []health.Transition, plans []*plan.Plan) {
	d.report.RecordHealth(mayFollow, transitions, plans)
	d.report.HealthChanged(transitions, plans)
	d.cfg.Metrics.Transitions(transitions)
}

// logLimits logs, once at start, which limits are not enforced on this node.
func (d *Driver) logLimits(logger klog.Logger) {
	if err := rdmacgroup.Enforced(d.cfg.HostRoot); err != nil {
		logger.Info("Limits on HCAs are not enforced", "reason", err.Error())
	} else if d.cfg.Hook.Path == "" {
		logger.Info("Limits on HCAs are not enforced", "reason", "the driver has no hook that would set them")
	}
}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *Driver) PrepareResourceClaims(
	ctx context.Context, all []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	return d.claims.Prepare(ctx, all), nil
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *Driver) UnprepareResourceClaims(
	ctx context.Context, all []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	return d.claims.Unprepare(ctx, all), nil
}

// WatchHealthStatus implements kubeletplugin.DRAPlugin.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	return d.offer.WatchHealth(ctx, reports)
}

// HandleError implements kubeletplugin.DRAPlugin. An error that is not recoverable ends the driver. The restart makes
// the error visible.
func (d *Driver) HandleError(ctx context.Context, err error, msg string) {
	utilruntime.HandleErrorWithContext(ctx, err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.fail(fmt.Errorf("%s: %w", msg, err))
	}
}

func (d *Driver) options() []kubeletplugin.Option {
	opts := []kubeletplugin.Option{
		kubeletplugin.DriverName(rdma.Domain),
		kubeletplugin.NodeName(d.cfg.NodeName),
		kubeletplugin.KubeClient(claims.FetchClient{Interface: d.client}),
		kubeletplugin.RegistrarDirectoryPath(d.cfg.RegistrarDir()),
		kubeletplugin.PluginDataDirectoryPath(d.cfg.PluginDir()),
		kubeletplugin.Serialize(false), // claimstore locks the HCAs of each claim
		kubeletplugin.GRPCInterceptor(d.observe),
	}
	if d.cfg.PodUID != "" {
		opts = append(opts, kubeletplugin.RollingUpdate(d.cfg.PodUID))
	}
	return opts
}
