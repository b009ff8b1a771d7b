package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/reports"
	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
)

// releaseTime is the time limit for a request about a claim. The HCAs of the claim are locked meanwhile.
const releaseTime = 5 * time.Second

// kubeletWord returns what the kubelet lists. It asks the kubelet at the first call.
type kubeletWord func() (podresources.Claims, error)

func (d *Driver) kubeletWord(ctx context.Context) kubeletWord {
	return sync.OnceValues(func() (podresources.Claims, error) {
		return podresources.List(ctx, d.cfg.podResourcesSocket(), plan.DriverName)
	})
}

// prepareAfter prepares a claim. If other claims hold its HCAs, or an earlier allocation of the claim itself does, it
// releases those that nobody can use any more. It holds no lock of the claim while it looks at another one.
func (d *Driver) prepareAfter(ctx context.Context, claim *resourceapi.ResourceClaim, prepare func() ([]kubeletplugin.Device, error)) ([]kubeletplugin.Device, error) {
	kubelet := d.kubeletWord(ctx)
	for {
		devices, err := prepare()
		var conflict plan.InUseError
		if !errors.As(err, &conflict) {
			return devices, err
		}
		f, released, releaseErr := d.release(ctx, conflict.Holder.UID, claim, kubelet)
		switch {
		case releaseErr != nil:
			return nil, fmt.Errorf("%w (whether that claim can go is not known: %w)", err, releaseErr)
		case released:
			continue // with the next conflict
		case f.verdict() == inUse:
			return nil, err
		default:
			return nil, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, conflict.Because(f.why(d.claims.RecordPath(conflict.Holder.UID))))
		}
	}
}

// release removes a claim if nobody can use it any more, and returns the facts about it. Asking is the claim that the
// kubelet wants to prepare, nil for none. The HCAs of the claim are locked meanwhile, so that the facts are still true
// when the record is removed.
func (d *Driver) release(ctx context.Context, uid types.UID, asking *resourceapi.ResourceClaim, kubelet kubeletWord) (f facts, released bool, err error) {
	unlock, err := d.claims.LockClaim(ctx, uid)
	if err != nil {
		return f, false, err
	}
	defer unlock()
	var gone *plan.Plan
	released, err = d.claims.Release(ctx, uid, func(p *plan.Plan) bool {
		f = d.factsOf(ctx, p, asking, kubelet)
		gone = p
		return f.verdict() == over
	}, func() error { return d.removeFiles(uid) })
	if !released || gone == nil { // it stays, or it was removed meanwhile
		return f, released, err
	}
	klog.FromContext(ctx).Info("Forgetting a claim that nobody can use any more", "claim", gone.Claim(), "uid", uid, "reason", f.Allocation.String())
	d.recorder.Note("Forgotten", gone.Claim(), "UID %s: %v, and no pod of the node uses it", uid, f.Allocation)
	d.claimStatus.Ended(uid)
	d.endedNow()
	return f, released, err
}

// factsOf gathers the facts about a claim. If its allocation stands, nothing else matters.
func (d *Driver) factsOf(ctx context.Context, p *plan.Plan, asking *resourceapi.ResourceClaim, kubelet kubeletWord) (f facts) {
	if f.Allocation, f.Doubt = d.askAllocation(ctx, p); f.Doubt != nil || f.Allocation == allocationStands {
		return f
	}
	var errs [2]error
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	// The kubelet knows one claim of each name. If that is the claim it wants to prepare, its list is about that claim.
	own := asking != nil && types.NamespacedName{Namespace: asking.Namespace, Name: asking.Name} == name
	if !own {
		var claims podresources.Claims
		claims, errs[0] = kubelet()
		f.Listed = podNames(claims.Users(name, p.CDIDevices()))
	}
	f.Running, errs[1] = d.podsRunning(p)
	if own { // pods that are about to start already have a cgroup
		f.Running = slices.DeleteFunc(f.Running, func(pod types.UID) bool { return slices.Contains(plan.PodsOf(asking), pod) })
	}
	f.Doubt = errors.Join(errs[:]...)
	return f
}

func podNames(pods []podresources.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return names
}

// askAllocation asks the API server for the state of the allocation that a plan was made from.
func (d *Driver) askAllocation(ctx context.Context, p *plan.Plan) (allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	claim, err := getClaim(ctx, d.client, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	if apierrors.IsNotFound(err) {
		return allocationGone, nil
	}
	if err != nil {
		return allocationUnknown, fmt.Errorf("look for claim %s: %w", p.Claim(), err)
	}
	return allocationOf(p, claim), nil
}

// podsRunning returns the pods that got a claim and still have a cgroup on the node, or a container in the container
// runtime. The error is the reason why further pods may run.
func (d *Driver) podsRunning(p *plan.Plan) (pods []types.UID, err error) {
	given := p.Pods
	if p.Only != "" && !slices.Contains(given, p.Only) {
		given = append(slices.Clip(given), p.Only)
	}
	cgroups, cgroupErr := d.readPods()
	var sandboxes []nri.Sandbox
	var connected bool
	if d.nri != nil {
		sandboxes, connected = d.nri.Sandboxes()
	}
	for _, pod := range given {
		if cgroups.Has(string(pod)) {
			pods = append(pods, pod)
		}
	}
	for _, s := range sandboxes {
		pod := types.UID(s.UID)
		uses := slices.Contains(given, pod) || slices.ContainsFunc(s.Containers, func(c nri.Container) bool { return usesClaim(c, p) })
		if uses && !slices.Contains(pods, pod) {
			pods = append(pods, pod)
		}
	}
	if connected {
		cgroupErr = nil // the list of the container runtime is complete
	}
	return pods, errors.Join(cgroupErr, d.podsUnknown(p))
}

// errLaterPods says that further pods of a claim are unknown.
var errLaterPods = errors.New("it is not known which pods it was given to after the first: the hook, which reports them, is off (chart values hookDir, hookReportDir)")

// podsUnknown returns the reason why a claim may have pods that its record lacks.
func (d *Driver) podsUnknown(p *plan.Plan) error {
	if p.Only != "" {
		return nil // no other
	}
	if d.cfg.Hook.Path == "" || d.cfg.Hook.ReportDir == "" {
		return errLaterPods
	}
	pending, err := reports.Pending(d.cfg.Hook.ReportDir, string(p.UID))
	if err == nil && pending {
		err = errors.New("the hook has just reported a container of it")
	}
	return err
}

// usesClaim reports whether a container was created with a device of a claim: it has the CDI device or the hook of the
// claim.
func usesClaim(c nri.Container, p *plan.Plan) bool {
	ids := p.CDIDevices()
	if slices.ContainsFunc(c.CDIDevices, func(id string) bool { return slices.Contains(ids, id) }) {
		return true
	}
	return slices.ContainsFunc(hooksOf(c), func(o hook.Options) bool { return o.Claim == string(p.UID) })
}

// recordPods returns a function that records the pod of a claim from a report of the hook. After an error the report
// must be kept. The pod is that of the container's cgroup: the pod in the report comes from annotations, which users
// may set. A container without a cgroup has ended.
func (d *Driver) recordPods(ctx context.Context) func(hook.Report) error {
	read := sync.OnceValues(d.readPods)
	return func(r hook.Report) error {
		p, err := d.claims.Get(types.UID(r.Claim))
		if r.Claim == "" || err != nil || p == nil || p.Only != "" {
			return nil // no claim, one without a record, or one whose only pod is recorded already
		}
		cgroups, _ := read() // as long as some cannot be read, no claim is released
		pod := types.UID(cgroups.Of(r.ID))
		if pod == "" || slices.Contains(p.Pods, pod) {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, releaseTime)
		defer cancel()
		unlock, err := d.claims.LockClaim(ctx, p.UID)
		if err != nil {
			return err
		}
		defer unlock()
		return d.claims.Update(ctx, p.UID, func(now *plan.Plan) *plan.Plan {
			if len(now.Pods) >= resourceapi.ResourceClaimReservedForMaxSize {
				now = now.WithoutPods(func(pod types.UID) bool { return !cgroups.Has(string(pod)) })
			}
			return now.WithPods(pod)
		})
	}
}

// ended returns those of some pods that have no cgroup on the node any more.
func (d *Driver) ended(pods []types.UID) []types.UID {
	cgroups, err := d.readPods()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod types.UID) bool { return cgroups.Has(string(pod)) })
}

func (d *Driver) readPods() (rdmacgroup.Pods, error) {
	return rdmacgroup.ReadPods(sysfs.DirFS(d.cgroupDir()), string(d.cfg.PodUID))
}

// onlyPod returns the pod of a claim that was made from a template for it, as the kubelet knows it, without a request
// to the API server. It returns nil where that is unknown.
func (d *Driver) onlyPod(ctx context.Context, claim corev1.ObjectReference) *corev1.ObjectReference {
	p, err := d.claims.Get(claim.UID)
	if err != nil || p == nil || p.Only == "" {
		return nil
	}
	listed, err := d.pods.Claims(ctx)
	pods := listed[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
	if err != nil || len(pods) != 1 {
		return nil
	}
	return new(report.PodReference(claim.Namespace, pods[0].Name, p.Only))
}
