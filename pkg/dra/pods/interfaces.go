package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

var errHostNetwork = errors.New("it asks for a network interface, and the pod has the host's network, " +
	"where all interfaces are already: leave out hostNetwork, or set network.mode to none")

// interfaces attaches network interfaces to pods and detaches them. The caller must hold the locks of the pod and its
// HCAs, except where a comment says otherwise.
type interfaces struct {
	cfg   *Config
	locks *flock.Names
	// failed has the last error of each interface and address that the driver could not take back. The sweep retries
	// each minute. A NIC that was pulled stays away.
	failed loop.Errors
}

// admit returns the reason why the interfaces of a new claim cannot be attached, before a pod waits for them. It needs
// no lock.
func (s *interfaces) admit(host *node.Host, p *plan.Plan) error {
	for _, dev := range p.Devices {
		if dev.Network == nil {
			continue
		}
		h := host.Lookup(devicename.Parse(dev.Device).HCA)
		if h == nil {
			continue // making the spec returns the error
		}
		netdev, _, err := UsableInterface(s.cfg.Host, h, dev.Network.Mode, dev.VLAN)
		if err == nil {
			err = s.cfg.Attacher.Excluded(attach.Interface{Claim: p, Device: dev, Netdev: netdev, PCI: functionOf(h)})
		}
		if errors.Is(err, attach.ErrAway) || errors.Is(err, podnet.ErrNoInterface) {
			err = node.Unsettled(err) // a pod may be about to return it, or the kernel's event has not arrived yet
		}
		if err != nil {
			return fmt.Errorf("claim %s: device %s: network %s: %w", p.Claim(), dev.Device, dev.Network.Mode, err)
		}
	}
	return nil
}

// attachAll attaches the missing interfaces of a pod's claims, and returns those that it attached. It is idempotent.
// After an error, the caller must detach the returned interfaces.
func (s *interfaces) attachAll(
	ctx context.Context, pod nri.Pod, plans []*plan.Plan,
) (done []attach.Interface, err error) {
	for _, p := range plans {
		for _, dev := range p.Devices {
			if dev.Network == nil {
				continue
			}
			did, err := s.attachOne(ctx, pod, p, dev)
			if err != nil {
				return done, fmt.Errorf("claim %s: device %s: %w", p.Claim(), dev.Device, err)
			}
			if did {
				klog.FromContext(ctx).Info("Attached a network interface to a pod", "pod", klog.KRef(pod.Namespace, pod.Name),
					"device", dev.Device, "mode", dev.Network.Mode, "interface", dev.Network.Interface)
				done = append(done, attach.Interface{Claim: p, Device: dev})
			}
		}
	}
	for _, i := range done {
		s.cfg.Report.ContainerStarted(i.Claim.UID)
		s.reportLacks(pod, i)
	}
	return done, nil
}

// reportLacks records what a pod's new interface lacks, although the pod can use it.
func (s *interfaces) reportLacks(pod nri.Pod, i attach.Interface) {
	lacks := s.cfg.Attacher.LacksOf(podOf(pod), i.Claim.UID, i.Device.Device)
	for reason, lack := range map[event.Reason]string{event.LowMTU: lacks.LowMTU, event.OpenIPv6: lacks.OpenIPv6} {
		if lack != "" {
			s.cfg.Report.Record(event.OfPod(i.Claim, pod.Name, types.UID(pod.UID), reason,
				fmt.Sprintf("pod %s: %s", pod.Name, lack)))
		}
	}
}

// lease gets the addresses of all interfaces of a pod from IPAM. The caller must not hold the lock, because a plugin
// may be slow.
func (s *interfaces) lease(ctx context.Context, pod nri.Pod, plans []*plan.Plan) error {
	if s.cfg.Attacher == nil || pod.Netns == "" {
		return nil // attaching returns the error
	}
	for _, p := range plans {
		for _, dev := range p.Devices {
			if dev.Network == nil {
				continue
			}
			if err := s.cfg.Attacher.Lease(ctx, podOf(pod), attach.Interface{Claim: p, Device: dev}); err != nil {
				return fmt.Errorf("claim %s: device %s: %w", p.Claim(), dev.Device, err)
			}
		}
	}
	return nil
}

// detachNew detaches the interfaces that were just attached to a pod, and those that were attached incompletely. It
// returns the records whose addresses must be released.
func (s *interfaces) detachNew(
	ctx context.Context, pod nri.Pod, attached ...attach.Interface,
) (leased []attach.Record) {
	if pod.Netns == "" || s.cfg.Attacher == nil {
		return nil
	}
	isNew := func(r attach.Record) bool { return r.State == nil || slices.ContainsFunc(attached, r.IsOf) }
	return s.detachMatching(ctx, pod, isNew, s.cfg.Attacher.DetachRunning)
}

func (s *interfaces) attachOne(ctx context.Context, pod nri.Pod, p *plan.Plan, dev plan.Device) (did bool, err error) {
	switch {
	case s.cfg.Attacher == nil: // a driver with --attach-interfaces made the plan
		return false, errors.New("the claim has a network interface, " +
			"and the driver attaches none any more (--attach-interfaces)")
	case pod.Netns == "":
		return false, errHostNetwork
	}
	h, ok := s.cfg.Node.Host().Known(devicename.Parse(dev.Device).HCA)
	if !ok {
		return false, errors.New("the HCA is not known")
	}
	i, err := interfaceOf(p, dev, &h)
	if err == nil { // VFs may have been made since the claim was prepared
		err = withoutVFs(&h, dev.Network.Mode)
	}
	if err != nil && !errors.Is(err, attach.ErrAway) { // the pod itself may have it
		return false, err
	}
	defer s.moving(dev.Device, dev.Network.Mode)()
	return s.cfg.Attacher.Attach(ctx, podOf(pod), i)
}

// moving tells the node that the interface of a device begins to move, and returns what tells it that it has.
func (s *interfaces) moving(device, mode string) (done func()) {
	h, ok := s.cfg.Node.Host().Known(devicename.Parse(device).HCA)
	if !ok || mode != podnet.Move {
		return func() {}
	}
	return s.cfg.Node.Moving(h.IBDev)
}

func podOf(pod nri.Pod) attach.Pod {
	return attach.Pod{UID: types.UID(pod.UID), Name: pod.Namespace + "/" + pod.Name, Netns: pod.Netns}
}

// detachAll detaches all interfaces of a pod that has ended. It returns the records whose addresses must be given
// back, which may be slow. Failed interfaces are retried by sweep.
func (s *interfaces) detachAll(ctx context.Context, pod nri.Pod) (leased []attach.Record) {
	if s.cfg.Attacher == nil {
		return nil
	}
	return s.detachMatching(ctx, pod, func(attach.Record) bool { return true }, s.cfg.Attacher.Detach)
}

func (s *interfaces) detachMatching(
	ctx context.Context, pod nri.Pod, match func(attach.Record) bool, by func(context.Context, attach.Record) error,
) (leased []attach.Record) {
	// The runtime may have given up on this call by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	records, err := s.cfg.Attacher.Of(podOf(pod))
	s.unreadable(ctx, err)
	for _, r := range records {
		if !match(r) {
			continue
		}
		done := s.moving(r.Device, r.Want.Mode)
		err := by(ctx, r)
		done()
		s.reportDetached(ctx, r, err)
		if r.Lease != nil {
			leased = append(leased, r)
		}
	}
	return leased
}

// atOnce is the number of plugins that may release addresses concurrently.
const atOnce = 8

// release releases addresses at the IPAM plugins. The caller must hold no lock. If ctx has a deadline, release
// takes at most half of the remaining time. sweep retries the addresses that are left.
func (s *interfaces) release(ctx context.Context, leased []attach.Record) {
	if _, ends := ctx.Deadline(); ends {
		bounded, cancel := context.WithTimeout(ctx, claims.HalfOf(ctx, podnet.DefaultPatience))
		defer cancel()
		ctx = bounded
	}
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, r := range leased {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := s.cfg.Attacher.Release(ctx, r); s.failed.IsNew("address "+r.ID(), err) {
				klog.FromContext(ctx).Error(err, "Address of a pod is not given back yet: the driver retries each minute")
			}
		})
	}
	all.Wait()
}

// unreadable logs the error of records that cannot be read, nil if all can.
func (s *interfaces) unreadable(ctx context.Context, err error) {
	if s.failed.IsNew("records", err) {
		klog.FromContext(ctx).Error(err, "Some network interfaces of pods are not known")
	}
}

func (s *interfaces) reportDetached(ctx context.Context, r attach.Record, err error) {
	logger := klog.FromContext(ctx)
	if s.failed.IsNew("interface "+r.ID(), err) {
		logger.Error(err, "Network interface of a pod is not taken back yet: the driver retries each minute")
	}
	if err != nil || r.Original.Name == "" { // without a name, the interface was not attached yet
		return
	}
	logger.Info("Took a network interface back from a pod",
		"pod", r.Pod.Name, "claim", r.ClaimName, "device", r.Device, "interface", r.Original.Name)
	s.cfg.Report.ContainerStarted(r.Claim)
}

// sweepInterval is the interval of looking for interfaces whose pod ended without an announcement.
const sweepInterval = time.Minute

// sweepAgain calls sweep and also periodically until ctx ends.
func (s *interfaces) sweepAgain(ctx context.Context, also func(context.Context)) {
	if s.cfg.Attacher == nil {
		return
	}
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		s.sweep(ctx)
		also(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepWait is how long the sweep waits for one pod. A later sweep tries again.
const sweepWait = 5 * time.Second

// sweep detaches the interfaces and addresses of pods that have ended. The caller must hold no lock: sweep locks for
// each interface, so that pods can start in between.
func (s *interfaces) sweep(ctx context.Context) {
	if s.cfg.Attacher == nil {
		return
	}
	if err := s.cfg.Attacher.Sweep(); s.failed.IsNew("temporary files", err) {
		klog.FromContext(ctx).Error(err, "Records of network interfaces not swept")
	}
	over, err := s.cfg.Attacher.Over()
	s.unreadable(ctx, err)
	var leased []attach.Record
	for _, r := range over {
		if ctx.Err() != nil {
			return
		}
		if r.Lease != nil {
			leased = append(leased, r)
		}
		if r.Detached {
			continue
		}
		s.reportDetached(ctx, r, s.sweepOne(ctx, r))
	}
	s.release(ctx, leased)
}

func (s *interfaces) sweepOne(ctx context.Context, r attach.Record) error {
	ctx, cancel := context.WithTimeout(ctx, sweepWait)
	defer cancel()
	unlock, err := s.locks.Lock(ctx, locksOfRecord(r)...)
	if err != nil {
		return err
	}
	defer unlock()
	defer s.moving(r.Device, r.Want.Mode)()
	return s.cfg.Attacher.Detach(ctx, r)
}
