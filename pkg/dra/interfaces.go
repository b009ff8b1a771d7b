package dra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	errHostNetwork = errors.New("it asks for a network interface, and the pod has the host's network, where all interfaces are already: leave out hostNetwork, or set network.mode to none")
	errManyNetdevs = errors.New("it has several ports with a network interface each, of which the driver does not choose: attach them by a CNI plugin")
	errNoEthernet  = errors.New("only interfaces of RoCE and iWARP HCAs are attached: InfiniBand and EFA need none, and IPoIB is the matter of its CNI plugins")
)

// newAttacher makes what attaches interfaces, nil where nobody does.
func newAttacher(cfg *Config, bootID string) (*attach.Attacher, error) {
	if cfg.Interfaces == nil {
		return nil, nil
	}
	return attach.New(cfg.Interfaces, cmp.Or(cfg.IPAM, &podnet.IPAM{}), filepath.Join(cfg.PluginDir(), "interfaces"), bootID)
}

// networks is what the node does for the interfaces of claims.
func (d *Driver) networks(ctx context.Context) *plan.Networks {
	if d.attacher == nil {
		return nil
	}
	return &plan.Networks{
		IPAM:   d.policy.Load().IPAM,
		Multus: func(hca string) string { return d.resourceName(ctx, hca) },
		Others: func(claim types.UID, pods []types.UID) []*plan.Plan {
			return slices.DeleteFunc(d.plansFor(ctx, pods...), func(p *plan.Plan) bool { return p.UID == claim })
		},
	}
}

// resourceName returns the resource name under which CNI plugins get an HCA, "" for none.
func (d *Driver) resourceName(ctx context.Context, hca string) string {
	for _, one := range d.latest(ctx).Decisions {
		if one.HCA.Name != hca {
			continue
		}
		if name := one.Offer.Attributes[resources.AttributeResourceName].StringValue; name != nil {
			return *name
		}
	}
	return ""
}

// netdevOf returns the interface of an HCA that a pod can get.
func netdevOf(h *rdma.HCA) (string, error) {
	if h.Protocol != rdma.ProtocolRoCE && h.Protocol != rdma.ProtocolIWARP {
		return "", errNoEthernet
	}
	var netdev string
	for p := range h.OwnPorts() {
		switch {
		case p.Netdev == "":
		case netdev != "":
			return "", errManyNetdevs
		default:
			netdev = p.Netdev
		}
	}
	if netdev == "" {
		return "", attach.ErrAway
	}
	return netdev, nil
}

// UsableInterface returns the interface of an HCA that claims of a mode can have on this host, or the reason why there
// is none.
func UsableInterface(host *podnet.Host, h *rdma.HCA, mode string) (netdev string, err error) {
	if netdev, err = netdevOf(h); err == nil {
		err = host.Usable(netdev, functionOf(h), mode)
	}
	if err == nil {
		err = withoutVFs(h, mode)
	}
	return netdev, err
}

// withoutVFs returns an error for an HCA with virtual functions: its interface would take their settings into a pod.
// Where the driver of the interface supports it, the kernel reports the same.
func withoutVFs(h *rdma.HCA, mode string) error {
	if mode != podnet.Move || h.PCI == nil || h.PCI.NumVFs == nil || *h.PCI.NumVFs == 0 {
		return nil
	}
	return podnet.HasVFs(*h.PCI.NumVFs)
}

// functionOf returns the PCI function of the interface of an HCA, "" where the kernel names another device.
func functionOf(h *rdma.HCA) string {
	if h.Identity.SF != nil {
		return "" // the kernel names the auxiliary device
	}
	return h.Identity.PCI
}

// interfaceOf returns the interface that a device of a plan brings into a pod. It has no name while a pod has it.
func interfaceOf(p *plan.Plan, dev plan.Device, h *rdma.HCA) (attach.Interface, error) {
	i := attach.Interface{Claim: p, Device: dev, PCI: functionOf(h)}
	var err error
	i.Netdev, err = netdevOf(h)
	return i, err
}

// admitInterfaces returns the reason why the interfaces of a new claim cannot be attached, before a pod waits for them.
func (d *Driver) admitInterfaces(p *plan.Plan) error {
	for _, dev := range p.Devices {
		if dev.Network == nil {
			continue
		}
		h := d.host.snapshot().Lookup(devicename.Parse(dev.Device).HCA)
		if h == nil {
			continue // making the spec returns the error
		}
		if _, err := UsableInterface(d.cfg.Interfaces, h, dev.Network.Mode); err != nil {
			return fmt.Errorf("claim %s: device %s: network %s: %w", p.Claim(), dev.Device, dev.Network.Mode, err)
		}
	}
	return nil
}

// attachAll attaches all interfaces of a pod's claims that the pod lacks, and returns those that it attached.
func (s sandboxes) attachAll(ctx context.Context, pod nri.Pod, plans []*plan.Plan) (done []attach.Interface, err error) {
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
				klog.FromContext(ctx).Info("Attached a network interface to a pod", "pod", klog.KRef(pod.Namespace, pod.Name), "device", dev.Device, "mode", dev.Network.Mode, "interface", dev.Network.Interface)
				done = append(done, attach.Interface{Claim: p, Device: dev})
			}
		}
	}
	for _, i := range done {
		s.claimStatus.ContainerStarted(i.Claim.UID)
	}
	return done, nil
}

// lease gets the addresses of all interfaces of a pod from IPAM.
func (s sandboxes) lease(ctx context.Context, pod nri.Pod, plans []*plan.Plan) error {
	if s.attacher == nil || pod.Netns == "" {
		return nil // attaching returns the error
	}
	for _, p := range plans {
		for _, dev := range p.Devices {
			if dev.Network == nil {
				continue
			}
			if err := s.attacher.Lease(ctx, podOf(pod), attach.Interface{Claim: p, Device: dev}); err != nil {
				return fmt.Errorf("claim %s: device %s: %w", p.Claim(), dev.Device, err)
			}
		}
	}
	return nil
}

// takeBackNew takes back the interfaces that were just attached to a pod, or not completely.
func (s sandboxes) takeBackNew(ctx context.Context, pod nri.Pod, attached ...attach.Interface) (owed []attach.Record) {
	if pod.Netns == "" {
		return nil
	}
	return s.takeBack(ctx, pod, func(r attach.Record) bool { return r.State == nil || slices.ContainsFunc(attached, r.IsOf) })
}

func (s sandboxes) attachOne(ctx context.Context, pod nri.Pod, p *plan.Plan, dev plan.Device) (did bool, err error) {
	switch {
	case s.attacher == nil: // the record is of a driver with --attach-interfaces
		return false, errors.New("the claim has a network interface, and the driver attaches none any more (--attach-interfaces)")
	case pod.Netns == "":
		return false, errHostNetwork
	}
	h, ok := s.host.known(devicename.Parse(dev.Device).HCA)
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
	return s.attacher.Attach(ctx, podOf(pod), i)
}

func podOf(pod nri.Pod) attach.Pod {
	return attach.Pod{UID: types.UID(pod.UID), Name: pod.Namespace + "/" + pod.Name, Netns: pod.Netns}
}

// takeBack takes back the interfaces of a pod that match. It returns those whose addresses must be given back, which
// takes as long as a plugin does. What cannot be taken back now is tried again.
func (s sandboxes) takeBack(ctx context.Context, pod nri.Pod, match func(attach.Record) bool) (owed []attach.Record) {
	if s.attacher == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the runtime may have given up on this call by now
	records, err := s.attacher.Of(podOf(pod))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some network interfaces of pods are not known")
	}
	for _, r := range records {
		if !match(r) {
			continue
		}
		err := s.attacher.TakeBack(ctx, r)
		s.detached(ctx, r, err)
		if r.Lease != nil {
			owed = append(owed, r)
		}
	}
	return owed
}

// atOnce is how many plugins run at once to take addresses back.
const atOnce = 8

// giveBack gives addresses back to the IPAM plugins. If ctx has a deadline, it takes at most half of the time until
// then. Addresses that are not given back by then are tried again. The caller holds no lock.
func (d *Driver) giveBack(ctx context.Context, owed []attach.Record) {
	if _, ends := ctx.Deadline(); ends {
		bounded, cancel := context.WithTimeout(ctx, halfOf(ctx, podnet.DefaultPatience))
		defer cancel()
		ctx = bounded
	}
	var all sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, r := range owed {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := d.attacher.GiveBack(ctx, r); err != nil {
				klog.FromContext(ctx).Error(err, "Address of a pod is not given back yet")
			}
		})
	}
	all.Wait()
}

func (d *Driver) detached(ctx context.Context, r attach.Record, err error) {
	logger := klog.FromContext(ctx)
	if err != nil {
		logger.Error(err, "Network interface of a pod is not taken back yet")
		return
	}
	if r.Original.Name == "" {
		return // it was not attached yet
	}
	logger.Info("Took a network interface back from a pod", "pod", r.Pod.Name, "claim", r.ClaimName, "device", r.Device, "interface", r.Original.Name)
	d.claimStatus.ContainerStarted(r.Claim)
}

// sweepInterval is how often to look for interfaces whose pod ended without an announcement.
const sweepInterval = time.Minute

// interfaceLoop takes back interfaces whose pods ended without an announcement, until ctx ends.
func (d *Driver) interfaceLoop(ctx context.Context) {
	if d.attacher == nil {
		return
	}
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		d.sweepInterfaces(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepInterfaces takes them back one by one, so that pods can start in between.
func (d *Driver) sweepInterfaces(ctx context.Context) {
	if d.attacher == nil {
		return
	}
	over, err := d.attacher.Over()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some network interfaces of pods are not known")
	}
	var owed []attach.Record
	for _, r := range over {
		if ctx.Err() != nil {
			return
		}
		if r.Lease != nil {
			owed = append(owed, r)
		}
		if r.Returned {
			continue
		}
		d.moving.Lock()
		err := d.attacher.TakeBack(ctx, r)
		d.moving.Unlock()
		d.detached(ctx, r, err)
	}
	d.giveBack(ctx, owed)
}

// attachedTo describes the interface that a pod got with a device of a claim, nil for none.
func (d *Driver) attachedTo(p *plan.Plan, dev plan.Device) *resourceapi.NetworkDeviceData {
	if d.attacher == nil || dev.Network == nil {
		return nil
	}
	state := d.attacher.State(p.UID, dev.Device)
	if state == nil {
		return nil
	}
	ips := state.Addresses[:min(len(state.Addresses), report.MaxIPs)]
	return &resourceapi.NetworkDeviceData{InterfaceName: state.Name, HardwareAddress: state.MAC, IPs: ips}
}
