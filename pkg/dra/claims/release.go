package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/reports"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Orphans removes claims that no pod can use any more.
type Orphans struct {
	*shared
	held map[types.UID]string // for Sweep: the reported reasons why ended claims still hold their HCAs
}

// releaseTime is the time limit of a request about a claim, during which the HCAs of the claim are locked.
const releaseTime = 5 * time.Second

// kubeletList returns the kubelet's list of pods. It asks the kubelet at the first call, and then returns the same
// answer. It is safe for concurrent use.
type kubeletList func() (podresources.Listing, error)

func (s *shared) askKubelet(ctx context.Context) kubeletList {
	return sync.OnceValues(func() (podresources.Listing, error) {
		return podresources.List(ctx, s.cfg.PodResources, rdma.Domain)
	})
}

// release removes a claim if no pod can use it any more, and returns the evidence. asking is the claim that the kubelet
// wants to prepare, nil for none. The HCAs of the claim stay locked until the end, so that the evidence is still true
// when the record is removed.
func (c *Orphans) release(
	ctx context.Context, uid types.UID, asking *resourceapi.ResourceClaim, kubelet kubeletList,
) (e evidence, released bool, err error) {
	unlock, err := c.cfg.Store.LockClaim(ctx, uid)
	if err != nil {
		return e, false, err
	}
	defer unlock()
	var gone *plan.Plan
	released, err = c.cfg.Store.Release(ctx, uid, func(p *plan.Plan) bool {
		e = c.evidenceOf(ctx, p, asking, kubelet)
		gone = p
		return e.usage() == over
	}, func() error { return c.removeFiles(uid) })
	if !released || gone == nil { // the record stays, or another caller has removed it
		return e, released, err
	}
	klog.FromContext(ctx).Info("Forgetting a claim that nobody can use any more",
		"claim", gone.Claim(), "uid", uid, "reason", e.Allocation.String())
	c.cfg.Report.Note("Forgotten", gone.Claim(), "UID %s: %v, and no pod of the node uses it", uid, e.Allocation)
	c.cfg.Report.Ended(uid)
	c.cfg.Offer.Ended()
	return e, released, err
}

// evidenceOf gathers the evidence about a claim. If the allocation of the claim still exists, nothing else matters.
func (c *Orphans) evidenceOf(
	ctx context.Context, p *plan.Plan, asking *resourceapi.ResourceClaim, kubelet kubeletList,
) (e evidence) {
	if e.Allocation, e.Doubt = c.askAllocation(ctx, p); e.Doubt != nil || e.Allocation == allocationStands {
		return e
	}
	var errs [2]error
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	// The kubelet has one claim of each name. If it wants to prepare a claim of this name, its list is about that
	// claim.
	own := asking != nil && types.NamespacedName{Namespace: asking.Namespace, Name: asking.Name} == name
	if !own {
		var listing podresources.Listing
		listing, errs[0] = kubelet()
		e.Listed = podNames(listing.Claims.Users(name, p.CDIDevices()))
	}
	e.Running, errs[1] = c.podsRunning(p)
	if own { // pods that are about to start already have a cgroup
		about := plan.PodsOf(asking)
		e.Running = slices.DeleteFunc(e.Running, func(pod types.UID) bool { return slices.Contains(about, pod) })
	}
	e.Doubt = errors.Join(errs[:]...)
	return e
}

func podNames(pods []podresources.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return names
}

// askAllocation asks the API server for the state of the allocation that a plan was made from.
func (c *Orphans) askAllocation(ctx context.Context, p *plan.Plan) (allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	claim, err := getClaim(ctx, c.cfg.Client, name)
	if gone(err, name) {
		return allocationGone, nil
	}
	if err != nil {
		return allocationUnknown, fmt.Errorf("look for claim %s: %w", p.Claim(), err)
	}
	return allocationOf(p, claim), nil
}

// podsRunning returns the pods that got a claim and still have a cgroup on the node, or a sandbox in the container
// runtime. The error is the reason why further pods may run.
func (c *Orphans) podsRunning(p *plan.Plan) (pods []types.UID, err error) {
	cgroups, cgroupErr := c.readPods()
	for _, pod := range p.KnownPods() {
		if cgroups.Has(string(pod)) {
			pods = append(pods, pod)
		}
	}
	if c.pods != nil {
		using, complete := c.pods.Using(p)
		for _, pod := range using {
			if !slices.Contains(pods, pod) {
				pods = append(pods, pod)
			}
		}
		if complete {
			cgroupErr = nil
		}
	}
	return pods, errors.Join(cgroupErr, c.podsUnknown(p))
}

// errLaterPods means that further pods of a claim are unknown.
var errLaterPods = errors.New("it is not known which pods it was given to after the first: " +
	"the hook, which reports them, is off (chart value hostPaths.hook)")

// podsUnknown returns the reason why a claim may have pods that its record lacks, nil for none.
func (c *Orphans) podsUnknown(p *plan.Plan) error {
	if p.Only != "" {
		return nil // no other pod can use the claim
	}
	if c.cfg.Hook.Path == "" || c.cfg.Hook.ReportDir == "" {
		return errLaterPods
	}
	pending, err := reports.Pending(c.cfg.Hook.ReportDir, string(p.UID))
	if err == nil && pending {
		err = errors.New("the hook has just reported a container of it")
	}
	return err
}
