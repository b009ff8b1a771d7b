// Package pods brings what claims ask for into the network namespaces of pods, and takes it back.
//
// On a host in exclusive RDMA network namespace mode, an HCA can be opened in one network namespace only. So the HCAs
// of a pod's claims move into the pod before its first container starts, and back when the pod ends. In both modes,
// claims may ask for network interfaces in the pod (package attach).
//
// The container runtime announces pods over NRI (package nri), and [Pods] is its handler. Correctness does not depend
// on the announcements. If the runtime continues without the driver, the hook does not let a container start without
// its devices. If a namespace ends, the kernel returns its devices. At the next connection the runtime lists all pods,
// and the driver gives pods what they lack: see the queue of pending pods.
//
// Pods with different HCAs do not wait for each other, whatever one of them makes large in its namespace. Each handler
// answers in the runtime's time, and what is not finished goes on with the locks of its own pod and HCAs. Only the
// moves of HCAs have one lock: HCAs that move concurrently would take each other's node numbers.
package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Config configures Pods.
type Config struct {
	Node         *node.Node
	Claims       Claims
	Reservations Reservations
	// NRISocket is the socket on which the container runtime announces pods, "" for none.
	NRISocket string
	NodeName  string
	// PodUID is the UID of the driver's own pod, "" if it runs in none.
	PodUID types.UID
	// Attacher attaches network interfaces of Host to pods. It is nil if the driver attaches none.
	Attacher *attach.Attacher
	Host     *podnet.Host
	Metrics  *metrics.Instruments
	Report   Reporter
	// Sysfs calls a function with the sysfs of a network namespace. Only tests set it: nil is the kernel's.
	Sysfs func(netns string, f func(fs.FS) error) error
}

// Claims is the part of claims that pods need.
type Claims interface {
	// Renew reads the host again and writes the specs of claims whose HCAs have got new nodes. The error has those of all
	// claims that could not be written.
	Renew(context.Context, []*plan.Plan) error
}

// Reservations is the part of the reservations of claims that pods need.
type Reservations interface {
	// PlansOf returns the plans of the claims that are reserved for one of the pods, according to the records.
	PlansOf(context.Context, ...types.UID) []*plan.Plan
	// Learn asks the API server which of the claims that concern the caller are reserved for the pods, and records it. It
	// returns the pods without a complete answer, and the reason, at the latest when ctx ends.
	Learn(_ context.Context, _ []claims.Pod, concerns func(*plan.Plan) bool) (unanswered []claims.Pod, err error)
}

// Reporter takes reports for people.
type Reporter interface {
	Record(event.Event)
	// Note and Warn record on the status page only.
	Note(reason, object, format string, args ...any)
	Warn(reason, object string, err error)
	// ContainerStarted is called with a claim whose network interface in a pod has changed.
	ContainerStarted(types.UID)
}

// Pods handles the container runtime's announcements of pods (nri.Handler). It is safe for concurrent use.
type Pods struct {
	cfg        Config
	plugin     *nri.Plugin // nil for none
	locks      flock.Names // of pods and HCAs
	moves      *moves
	interfaces *interfaces
	gids       *gids
	hostPods   *hostPods
	pending    *pending
}

// New returns Pods. It starts no goroutine, and no pod is announced to it before Run.
func New(cfg Config) *Pods {
	s := &Pods{cfg: cfg, hostPods: newHostPods(), pending: newPending()}
	s.moves = &moves{cfg: &s.cfg, hostPods: s.hostPods, users: users{}}
	s.interfaces = &interfaces{cfg: &s.cfg, locks: &s.locks}
	if cfg.NRISocket != "" {
		s.plugin = &nri.Plugin{Socket: cfg.NRISocket, Name: rdma.Domain, Handler: s}
	}
	if cfg.Sysfs == nil {
		s.cfg.Sysfs = sysfsOf
	}
	s.gids = &gids{cfg: &s.cfg, plugin: s.plugin, reported: map[told]int{}}
	return s
}

// Started implements nri.Handler. It gives the pod all devices of its claims, or none. It is idempotent.
//
// If the API server does not answer whether the pod shares a claim, the pod starts nevertheless: most pods share none.
// If it does, the hook keeps its containers from running until a retry has given them their devices. The same holds for
// a pod whose address takes long, because the runtime starts no other pod while it waits for an answer.
func (s *Pods) Started(ctx context.Context, pod nri.Pod) error {
	asked := []nri.Pod{pod}
	if s.cfg.Node.Moves.Possible() { // pods that may use the devices of this pod on the host
		if pod.Netns == "" {
			s.hostPods.add(pod)
		}
		asked = append(s.hostPods.unanswered(), asked...)
	}
	soon, cancel := claims.Soon(ctx)
	unanswered, why := s.learnClaims(soon, asked...)
	cancel()
	if !slices.Contains(unanswered, pod) {
		why = nil
	}
	err := s.started(ctx, pod)
	if errors.Is(err, errSlow) {
		err, why = nil, errors.Join(err, why)
	}
	if err == nil && why != nil && pod.Netns != "" {
		klog.FromContext(ctx).Error(why, "Pod starts, and may lack RDMA devices for now",
			"pod", klog.KRef(pod.Namespace, pod.Name))
		s.pending.add(pod)
	}
	return err
}

// errSlow means that the address or the interface of a pod takes longer than the runtime waits.
var errSlow = errors.New("the pod's address or interface takes longer than the container runtime waits; " +
	"the driver goes on with it")

// started returns errSlow when the time of ctx is nearly over: the kernel may work for the pod for longer.
func (s *Pods) started(ctx context.Context, pod nri.Pod) error {
	if !s.needs(ctx, pod) {
		return nil // without the lock, which other pods may hold
	}
	var late atomic.Bool
	// What goes on after the answer is for a pod that may have been stopped meanwhile.
	wanted := func() bool { return !late.Load() || s.pending.has(pod) }
	inTime, err := within(ctx, func() error {
		leasing, cancel := context.WithTimeout(ctx, claims.HalfOf(ctx, podnet.DefaultPatience)) // half is for later work
		defer cancel()
		plans, err := s.setUp(ctx, leasing, pod, wanted)
		if err != nil && leasing.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", errSlow, err)
		}
		if errors.Is(err, errUnwanted) { // after the answer
			return nil
		}
		return s.failed(pod, plans, err)
	})
	if !inTime {
		late.Store(true)
		return errSlow
	}
	return err
}

// within calls f, and returns its result. If the time of ctx is nearly over before, it returns false, and f goes on. So
// f must not hold a lock that other pods need. The runtime drops a plugin whose answer is late.
func within[T any](ctx context.Context, f func() T) (inTime bool, result T) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*7/8)
		defer cancel()
	}
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case result = <-done:
		return true, result
	case <-ctx.Done():
		return false, result
	}
}

// errUnwanted means that a pod was stopped meanwhile.
var errUnwanted = errors.New("the pod was stopped")

// setUp gives a pod everything that its claims ask for, or nothing, if wanted returns true. It is idempotent. It first
// requests addresses, until leasing ends. Meanwhile it holds no lock that another pod waits for.
func (s *Pods) setUp(ctx, leasing context.Context, pod nri.Pod, wanted func() bool) ([]*plan.Plan, error) {
	plans := s.plansOf(ctx, pod)
	if err := plan.Clash(plans); err != nil {
		return plans, err
	}
	if err := s.interfaces.lease(leasing, pod, plans); err != nil {
		if leasing.Err() == nil { // otherwise the next try releases what it finds, and asks again
			s.interfaces.release(ctx, s.interfaces.detachNew(ctx, pod))
		}
		return plans, err
	}
	plans, leased, err := s.join(ctx, pod, wanted)
	s.interfaces.release(ctx, leased)
	return plans, err
}

// join brings what a pod's claims ask for into its network namespace. It holds the locks of the pod and its HCAs. After
// an error it has undone its changes, and returns the records whose addresses must be released.
func (s *Pods) join(
	ctx context.Context, pod nri.Pod, wanted func() bool,
) (plans []*plan.Plan, leased []attach.Record, err error) {
	plans, unlock, err := s.lockPod(ctx, pod)
	if err != nil {
		return plans, nil, err
	}
	defer unlock()
	if !wanted() {
		return nil, s.interfaces.detachNew(ctx, pod), errUnwanted
	}
	watch, began := s.cfg.Metrics.Start(metrics.Move), time.Now()
	var attached []attach.Interface
	ctx, cancel, moved, err := s.moves.in(ctx, pod, plans)
	defer cancel()
	if err == nil {
		// The RDMA device moves before its interface, and returns before it: its driver may need the interface on the
		// host.
		attached, err = s.interfaces.attachAll(ctx, pod, plans)
	}
	if err != nil {
		s.moves.out(ctx, pod, moved)
		return plans, s.interfaces.detachNew(ctx, pod, attached...), err
	}
	if len(moved) > 0 {
		watch.Whole(metrics.PhaseIn)
		klog.FromContext(ctx).Info("Moved RDMA devices into a pod",
			"pod", klog.KRef(pod.Namespace, pod.Name), "ibdevs", moved, "took", time.Since(began))
		s.cfg.Report.Note("MovedIn", pod.Namespace+"/"+pod.Name, "%s", strings.Join(moved, ", "))
	}
	return plans, nil, nil
}

// lockPod locks a pod and the HCAs of its claims until unlock, and returns the plans of the claims.
func (s *Pods) lockPod(ctx context.Context, pod nri.Pod) (plans []*plan.Plan, unlock func(), err error) {
	for {
		plans = s.plansOf(ctx, pod)
		names := locksOf(pod, plans)
		if unlock, err = s.locks.Lock(ctx, names...); err != nil {
			return plans, nil, err
		}
		plans = s.plansOf(ctx, pod) // again, because a claim may have ended or begun meanwhile
		isLocked := func(name string) bool { return slices.Contains(names, name) }
		if !slices.ContainsFunc(locksOf(pod, plans), func(name string) bool { return !isLocked(name) }) {
			return plans, unlock, nil
		}
		unlock()
	}
}

// failed records why a pod does not have its devices, and returns the error with the pod. The kubelet's own event
// covers only the start of a new sandbox.
func (s *Pods) failed(pod nri.Pod, plans []*plan.Plan, err error) error {
	if err == nil {
		return nil
	}
	s.cfg.Metrics.MoveFailed(metrics.PhaseIn)
	for _, p := range plans {
		s.cfg.Report.Record(event.OfPod(p, pod.Name, types.UID(pod.UID), event.MoveFailed,
			fmt.Sprintf("the RDMA devices of pod %s are not in its network namespace: %v", pod.Name, err)))
	}
	return fmt.Errorf("give pod %s/%s the RDMA devices of its claims: %w", pod.Namespace, pod.Name, err)
}

// Stopped implements nri.Handler. It detaches what the pod has. The kernel returns the rest when the namespace ends.
// If that takes longer than the runtime waits, it goes on without the runtime.
func (s *Pods) Stopped(ctx context.Context, pod nri.Pod) {
	s.hostPods.drop(pod)
	if !s.moves.intoPod(pod) && s.cfg.Attacher == nil {
		return
	}
	s.pending.drop(pod)
	s.gids.forget(pod)
	within(ctx, func() struct{} {
		s.interfaces.release(ctx, s.leave(ctx, pod))
		return struct{}{}
	})
}

// leaveTime is how long the driver waits for the locks of a pod that has ended. The sweep then tries again.
const leaveTime = time.Minute

// leave takes everything out of a pod. It holds the locks of the pod and its HCAs. It returns the records whose
// addresses must be released.
func (s *Pods) leave(ctx context.Context, pod nri.Pod) (leased []attach.Record) {
	// The runtime may have given up on this call by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	plans, unlock, err := s.lockPod(ctx, pod)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Devices and interfaces of a pod stay in it until its network namespace ends",
			"pod", klog.KRef(pod.Namespace, pod.Name))
		return nil
	}
	defer unlock()
	s.moves.outAll(ctx, pod, plans)
	return s.interfaces.detachAll(ctx, pod)
}

// needs reports whether a pod has claims from which it may need devices or interfaces.
func (s *Pods) needs(ctx context.Context, pod nri.Pod) bool {
	return (s.moves.intoPod(pod) || s.cfg.Attacher != nil) && len(s.plansOf(ctx, pod)) > 0
}

// plansOf returns the plans of the claims that are reserved for a pod, according to the records.
func (s *Pods) plansOf(ctx context.Context, pod nri.Pod) []*plan.Plan {
	return s.cfg.Reservations.PlansOf(ctx, types.UID(pod.UID))
}

// learnClaims asks the API server which claims are reserved for pods, and records the answers. It asks only about
// claims with devices or interfaces that can go into a pod. It returns the pods without a complete answer.
func (s *Pods) learnClaims(ctx context.Context, pods ...nri.Pod) (unanswered []nri.Pod, err error) {
	moves, attaches := s.cfg.Node.Moves.Possible(), s.cfg.Attacher != nil
	if !moves && !attaches || len(pods) == 0 {
		return nil, nil
	}
	refs := make([]claims.Pod, len(pods))
	for i, pod := range pods {
		refs[i] = refOf(pod)
	}
	unknown, err := s.cfg.Reservations.Learn(ctx, refs, func(p *plan.Plan) bool {
		return attaches && p.HasNetwork() || moves && slices.ContainsFunc(p.Devices, canMove)
	})
	for _, pod := range pods {
		if slices.Contains(unknown, refOf(pod)) {
			unanswered = append(unanswered, pod)
		}
	}
	s.hostPods.learned(pods, unanswered)
	return unanswered, err
}

func refOf(pod nri.Pod) claims.Pod {
	return claims.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}
}

// Admit implements claims.Pods.
func (s *Pods) Admit(host *node.Host, p *plan.Plan) error { return s.interfaces.admit(host, p) }

// UsingHostNetwork implements claims.Pods.
func (s *Pods) UsingHostNetwork(pods []types.UID) []types.UID { return s.hostPods.among(pods) }

// OnHost implements nri.Handler.
func (s *Pods) OnHost(pods []nri.Pod) { s.hostPods.set(pods) }

// Run follows the container runtime, retries pending pods and sweeps, until ctx ends.
func (s *Pods) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	sweep := func(ctx context.Context) { s.interfaces.sweepAgain(ctx, s.gids.check) }
	for _, loop := range []func(context.Context){s.follow, s.retry, sweep} {
		all.Go(func() { loop(ctx) })
	}
}
