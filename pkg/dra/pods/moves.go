package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// moves moves HCAs into pods and back.
type moves struct {
	cfg      *Config
	hostPods *hostPods
	mu       sync.Mutex // held while HCAs move into a pod or back, and get their nodes
	users    users
}

// users has the pods that have HCAs, by the kernel's names of the HCAs.
type users map[string]nri.Pod

// ibdevsOf returns the HCAs that moved into a pod.
func (u users) ibdevsOf(pod nri.Pod) (ibdevs []string) {
	for ibdev, user := range u {
		if user == pod {
			ibdevs = append(ibdevs, ibdev)
		}
	}
	slices.Sort(ibdevs)
	return ibdevs
}

// canMove reports whether a device can move into the network namespace of its pod. A device for monitoring stays on the
// host.
func canMove(d plan.Device) bool { return !d.AdminAccess }

// intoPod reports whether HCAs move into a pod at all.
func (m *moves) intoPod(pod nri.Pod) bool { return pod.Netns != "" && m.cfg.Node.Moves.Possible() }

// ibdevs returns the kernel's names of the HCAs of a plan that can move.
func (m *moves) ibdevs(p *plan.Plan) []string {
	host := m.cfg.Node.Host()
	var out []string
	for _, dev := range p.Devices {
		if !canMove(dev) {
			continue
		}
		for _, name := range dev.HCAs() {
			if hca, ok := host.Known(name); ok {
				out = append(out, hca.IBDev)
			}
		}
	}
	return out
}

// finishTime is how long the rest may take once devices have moved into a pod. Other pods wait meanwhile.
const finishTime = 20 * time.Second

// in moves the HCAs of plans into a pod, and returns those that it moved, also with an error. It is idempotent. The
// kernel makes a new node for each, with a number that another device had before. So in excludes other moves until the
// specs have the new numbers.
//
// If it moved an HCA, the work must be finished even if the runtime stops waiting: the runtime then starts the
// containers, and the hook lets them start with the devices. The returned context is for that.
func (m *moves) in(ctx context.Context, pod nri.Pod, plans []*plan.Plan) (
	finishing context.Context, cancel context.CancelFunc, moved []string, err error,
) {
	m.mu.Lock()
	defer m.mu.Unlock()
	moved, err = m.moveAll(pod, plans)
	if len(moved) == 0 {
		return ctx, func() {}, nil, err
	}
	finishing, cancel = context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	if err == nil {
		// Renew must come first: afterwards the runtime reads the specs for the first container of the pod.
		err = m.cfg.Claims.Renew(finishing, plans)
	}
	return finishing, cancel, moved, err
}

func (m *moves) moveAll(pod nri.Pod, plans []*plan.Plan) (moved []string, err error) {
	if !m.intoPod(pod) {
		return nil, nil
	}
	for _, p := range plans {
		for _, ibdev := range m.ibdevs(p) {
			did, err := m.move(pod, p, ibdev)
			if err != nil {
				return moved, fmt.Errorf("claim %s: %w", p.Claim(), err)
			}
			if did {
				moved = append(moved, ibdev)
			}
		}
	}
	return moved, nil
}

func (m *moves) move(pod nri.Pod, p *plan.Plan, ibdev string) (moved bool, err error) {
	if err := m.usedOnHost(p, ibdev); err != nil {
		return false, err
	}
	moved, err = m.cfg.Node.Moves.In(ibdev, pod.Netns)
	if user, known := m.users[ibdev]; known && user != pod && errors.Is(err, rdmanetns.ErrAbsent) {
		return false, fmt.Errorf("RDMA device %s is in pod %s/%s (%s): it comes back when that pod's sandbox is gone",
			ibdev, user.Namespace, user.Name, user.UID)
	}
	if err == nil {
		m.users[ibdev] = pod
	}
	return moved, err
}

// outAll moves all HCAs of a pod back to the host.
func (m *moves) outAll(ctx context.Context, pod nri.Pod, plans []*plan.Plan) {
	if !m.intoPod(pod) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var ibdevs []string
	for _, p := range plans {
		ibdevs = append(ibdevs, m.ibdevs(p)...)
	}
	for _, ibdev := range m.users.ibdevsOf(pod) {
		if !slices.Contains(ibdevs, ibdev) { // the claim is no longer reserved for the pod
			ibdevs = append(ibdevs, ibdev)
		}
	}
	m.moveOut(ctx, pod, ibdevs)
}

// out moves HCAs of a pod back to the host.
func (m *moves) out(ctx context.Context, pod nri.Pod, ibdevs []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moveOut(ctx, pod, ibdevs)
}

// moveOut moves HCAs back to the host in reverse order. It continues after an error: the kernel returns the HCA when
// the namespace ends. The caller holds the lock.
func (m *moves) moveOut(ctx context.Context, pod nri.Pod, ibdevs []string) {
	logger, watch := klog.FromContext(ctx), m.cfg.Metrics.Start(metrics.Move)
	var back []string
	for _, ibdev := range slices.Backward(ibdevs) {
		did, err := m.cfg.Node.Moves.Out(ibdev, pod.Netns)
		if err == nil && m.users[ibdev] == pod {
			delete(m.users, ibdev)
		}
		if err != nil {
			m.cfg.Metrics.MoveFailed(metrics.PhaseOut)
			logger.Error(err, "RDMA device stays in the network namespace of a pod until that ends",
				"pod", klog.KRef(pod.Namespace, pod.Name), "ibdev", ibdev)
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
	m.cfg.Report.Note("MovedOut", pod.Namespace+"/"+pod.Name, "%s", strings.Join(back, ", "))
	if err := m.cfg.Node.Rescan(); err != nil {
		logger.Error(err, "Host not read after RDMA devices came back")
	}
}

// usedOnHost returns an error that names the pod that uses an HCA of a claim on the host, nil for none. An HCA that is
// not on the host has no such user.
func (m *moves) usedOnHost(p *plan.Plan, ibdev string) error {
	if _, err := fs.Stat(m.cfg.Node.Sys(), path.Join("class/infiniband", ibdev)); err != nil {
		return nil
	}
	for pod, known := range m.hostPods.all() {
		switch {
		case slices.Contains(p.Pods, types.UID(pod.UID)):
			return fmt.Errorf("RDMA device %s is used on the host by pod %s/%s (%s), which has the host's network: "+
				"it is free when that pod has ended",
				ibdev, pod.Namespace, pod.Name, pod.UID)
		case !known && claims.MayShare(p, refOf(pod)):
			return fmt.Errorf("RDMA device %s may be used on the host by pod %s/%s (%s), which has the host's network: "+
				"the API server has not said yet whether it shares the claim; the driver asks again",
				ibdev, pod.Namespace, pod.Name, pod.UID)
		}
	}
	return nil
}
