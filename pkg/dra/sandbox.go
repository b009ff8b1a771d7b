package dra

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
)

// sandboxes handles what the container runtime announces of pods (nri.Handler). On a host in exclusive mode, the HCAs
// of a pod's claims move into the network namespace of the pod before its first container starts, and back when it
// ends. The network interfaces that the claims ask for do so in both modes.
//
// Correctness does not depend on the announcements. If the runtime continues without the driver, the hook does not let
// a container start without its HCAs, and the kernel returns the HCAs of a namespace that ends. The next connection to
// the runtime repeats what was missed.
type sandboxes struct{ *Driver }

// Started implements nri.Handler. It moves all HCAs of the pod's claims, or none.
//
// If the API server does not answer whether the pod shares a claim, the pod starts nevertheless: most pods share none.
// The hook keeps its containers from running without their devices, which it gets later. The same holds for a pod whose
// address takes long: the runtime starts no other pod while it waits for an answer.
func (s sandboxes) Started(ctx context.Context, pod nri.Pod) error {
	asked := []nri.Pod{pod}
	if s.moves() { // also for pods that may use the devices of this one on the host
		if pod.Netns == "" {
			s.onHost.add(pod)
		}
		asked = append(s.onHost.unsure(), asked...)
	}
	unsure, why := s.learnOfPods(ctx, asked...)
	if !slices.Contains(unsure, pod) {
		why = nil
	}
	err := s.started(ctx, pod)
	if errors.Is(err, errSlow) {
		err, why = nil, errors.Join(err, why)
	}
	if err == nil && why != nil && pod.Netns != "" {
		klog.FromContext(ctx).Error(why, "Pod starts, and may lack RDMA devices for now", "pod", klog.KRef(pod.Namespace, pod.Name))
		s.pending.add(pod)
	}
	return err
}

// errSlow says that the address of a pod takes longer than the runtime waits.
var errSlow = errors.New("the pod's address takes longer than the container runtime waits; the driver goes on asking for it")

func (s sandboxes) started(ctx context.Context, pod nri.Pod) error {
	if !s.awaits(ctx, pod) {
		return nil // without waiting for the moves of other pods
	}
	leasing, cancel := context.WithTimeout(ctx, halfOf(ctx, podnet.DefaultPatience)) // the other half is for what follows
	defer cancel()
	plans, err := s.give(ctx, leasing, pod, func() bool { return true })
	if err != nil && leasing.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errSlow, err)
	}
	return s.failed(pod, plans, err)
}

// errUnwanted says that a pod was stopped meanwhile.
var errUnwanted = errors.New("the pod was stopped")

// give gives a pod everything that its claims ask for, or nothing, as long as it is wanted. It asks for addresses
// first, until leasing ends, and holds no lock meanwhile that another pod waits for.
func (s sandboxes) give(ctx, leasing context.Context, pod nri.Pod, wanted func() bool) ([]*plan.Plan, error) {
	plans := s.plansFor(ctx, types.UID(pod.UID))
	if err := plan.Clash(plans); err != nil {
		return plans, err
	}
	if err := s.lease(leasing, pod, plans); err != nil {
		if leasing.Err() == nil { // else the next try gives back what it finds, and asks again
			s.giveBack(ctx, s.takeBackNew(ctx, pod))
		}
		return plans, err
	}
	plans, owed, err := s.join(ctx, pod, wanted)
	s.giveBack(ctx, owed)
	return plans, err
}

// join brings what a pod's claims ask for into its network namespace. It works on one pod at a time: HCAs that move at
// once would take each other's node numbers. After an error it returns the records whose addresses must be given back.
func (s sandboxes) join(ctx context.Context, pod nri.Pod, wanted func() bool) (plans []*plan.Plan, owed []attach.Record, err error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	if !wanted() {
		return nil, s.takeBackNew(ctx, pod), errUnwanted
	}
	plans = s.plansFor(ctx, types.UID(pod.UID)) // a claim may have ended meanwhile
	watch, began := s.cfg.Metrics.Start(metrics.Move), time.Now()
	var attached []attach.Interface
	moved, err := s.moveIn(pod, plans)
	if err == nil && len(moved) > 0 {
		err = s.renew(ctx, plans)
	}
	if err == nil {
		// The RDMA device moves first, and returns first: its driver may need its interface on the host.
		attached, err = s.attachAll(ctx, pod, plans)
	}
	if err != nil {
		s.moveOut(ctx, pod, moved)
		return plans, s.takeBackNew(ctx, pod, attached...), err
	}
	if len(moved) > 0 {
		watch.Whole(metrics.PhaseIn)
		klog.FromContext(ctx).Info("Moved RDMA devices into a pod", "pod", klog.KRef(pod.Namespace, pod.Name), "ibdevs", moved, "took", time.Since(began))
		s.recorder.Note("MovedIn", pod.Namespace+"/"+pod.Name, "%s", strings.Join(moved, ", "))
	}
	return plans, nil, nil
}

// failed records why a pod does not have its devices. The kubelet does so only for a new sandbox.
func (s sandboxes) failed(pod nri.Pod, plans []*plan.Plan, err error) error {
	if err == nil {
		return nil
	}
	s.cfg.Metrics.MoveFailed(metrics.PhaseIn)
	for _, p := range plans {
		e := report.OfClaim(p, report.MoveFailed,
			fmt.Sprintf("the RDMA devices of pod %s are not in its network namespace: %v", pod.Name, err))
		e.Pod = types.UID(pod.UID)
		s.recorder.Record(e)
	}
	return fmt.Errorf("give pod %s/%s the RDMA devices of its claims: %w", pod.Namespace, pod.Name, err)
}

// Stopped implements nri.Handler. It takes back what the pod has. The kernel returns the rest when the namespace ends.
func (s sandboxes) Stopped(ctx context.Context, pod nri.Pod) {
	s.onHost.drop(pod)
	if !s.follows(pod) && s.attacher == nil {
		return
	}
	s.pending.drop(pod)
	s.giveBack(ctx, s.leave(ctx, pod))
}

// leave takes everything out of a pod. It returns the records whose addresses must be given back.
func (s sandboxes) leave(ctx context.Context, pod nri.Pod) (owed []attach.Record) {
	s.moving.Lock()
	defer s.moving.Unlock()
	if s.follows(pod) {
		var ibdevs []string
		for _, p := range s.plansFor(ctx, types.UID(pod.UID)) {
			ibdevs = append(ibdevs, s.ibdevs(p)...)
		}
		for _, ibdev := range s.users.of(pod) {
			if !slices.Contains(ibdevs, ibdev) { // the claim is no longer reserved for the pod
				ibdevs = append(ibdevs, ibdev)
			}
		}
		s.moveOut(ctx, pod, ibdevs)
	}
	return s.takeBack(ctx, pod, func(attach.Record) bool { return true })
}

// Memlock implements nri.Handler. It returns the limit that the hooks of the container's claims would set. In the OCI
// spec the limit holds for exec sessions and probes too. The hook then has nothing to do, unless another plugin changes
// the spec afterwards.
func (s sandboxes) Memlock(_ nri.Pod, c nri.Container) *uint64 {
	var want hook.Size
	for _, opts := range hooksOf(c) {
		want = max(want, opts.Memlock)
	}
	limit := uint64(want)
	if limit == 0 || c.Memlock != nil && *c.Memlock >= limit {
		return nil
	}
	return &limit
}

// hooksOf returns the options of the driver's hooks in a container.
func hooksOf(c nri.Container) (all []hook.Options) {
	for _, h := range c.Hooks {
		if len(h) < 2 || !strings.HasPrefix(filepath.Base(h[0]), "rdma-hook") {
			continue
		}
		if opts, _, err := hook.ParseOptions(h[2:]); err == nil {
			all = append(all, opts)
		}
	}
	return all
}

// follows reports whether HCAs move into a pod at all.
func (s sandboxes) follows(pod nri.Pod) bool {
	return pod.Netns != "" && s.moves()
}

// awaits reports whether a pod has claims from which it may need something.
func (s sandboxes) awaits(ctx context.Context, pod nri.Pod) bool {
	return (s.follows(pod) || s.attacher != nil) && len(s.plansFor(ctx, types.UID(pod.UID))) > 0
}

// plansFor returns the plans of the claims that are reserved for any of some pods.
func (d *Driver) plansFor(ctx context.Context, pods ...types.UID) []*plan.Plan {
	return slices.DeleteFunc(d.plans(ctx), func(p *plan.Plan) bool {
		return !slices.ContainsFunc(p.Pods, func(pod types.UID) bool { return slices.Contains(pods, pod) })
	})
}

// ibdevs returns the kernel's names of the HCAs of a plan. Access for monitoring moves
// nothing.
func (s sandboxes) ibdevs(p *plan.Plan) []string {
	var out []string
	for _, dev := range p.Devices {
		if dev.AdminAccess {
			continue
		}
		for _, name := range dev.HCAs() {
			if hca, ok := s.host.known(name); ok {
				out = append(out, hca.IBDev)
			}
		}
	}
	return out
}

// moveIn moves the HCAs of plans into a pod, and returns those that it moved.
func (s sandboxes) moveIn(pod nri.Pod, plans []*plan.Plan) (moved []string, err error) {
	if !s.follows(pod) {
		return nil, nil
	}
	for _, p := range plans {
		for _, ibdev := range s.ibdevs(p) {
			if err := s.usedOnHost(p, ibdev); err != nil {
				return moved, fmt.Errorf("claim %s: %w", p.Claim(), err)
			}
			did, err := s.host.moves.In(ibdev, pod.Netns)
			if user, known := s.users[ibdev]; known && user != pod && errors.Is(err, rdmanetns.ErrAbsent) {
				err = fmt.Errorf("RDMA device %s is in pod %s/%s (%s): it comes back when that pod's sandbox has gone", ibdev, user.Namespace, user.Name, user.UID)
			}
			if err != nil {
				return moved, fmt.Errorf("claim %s: %w", p.Claim(), err)
			}
			s.users[ibdev] = pod
			if did {
				moved = append(moved, ibdev)
			}
		}
	}
	return moved, nil
}

// moveOut moves HCAs back to the host, the last one first.
func (s sandboxes) moveOut(ctx context.Context, pod nri.Pod, ibdevs []string) {
	logger, watch := klog.FromContext(ctx), s.cfg.Metrics.Start(metrics.Move)
	var back []string
	for _, ibdev := range slices.Backward(ibdevs) {
		did, err := s.host.moves.Out(ibdev, pod.Netns)
		if err == nil && s.users[ibdev] == pod {
			delete(s.users, ibdev)
		}
		if err != nil {
			s.cfg.Metrics.MoveFailed(metrics.PhaseOut)
			logger.Error(err, "RDMA device stays in the network namespace of a pod until that ends", "pod", klog.KRef(pod.Namespace, pod.Name), "ibdev", ibdev)
		}
		if did {
			back = append(back, ibdev)
		}
	}
	if len(back) == 0 {
		return
	}
	watch.Whole(metrics.PhaseOut)
	logger.Info("Brought RDMA devices back from a pod", "pod", klog.KRef(pod.Namespace, pod.Name), "ibdevs", back)
	s.recorder.Note("MovedOut", pod.Namespace+"/"+pod.Name, "%s", strings.Join(back, ", "))
	if _, err := s.host.rescan(); err != nil {
		logger.Error(err, "Host not read after RDMA devices came back")
	}
}

// renew writes the specs of claims again after the kernel made new nodes, before the runtime reads them for the first
// container of the pod.
func (s sandboxes) renew(ctx context.Context, plans []*plan.Plan) error {
	_, err := s.host.rescan()
	errs := []error{err}
	for _, p := range plans {
		errs = append(errs, s.restoreClaim(ctx, p.UID))
	}
	return errors.Join(errs...)
}
