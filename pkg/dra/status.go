package dra

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/offer"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Measure writes the status of the node as metrics. It reads the counters of the host, and asks the kubelet for its
// pods.
func (d *Driver) Measure(ctx context.Context, to metrics.Samples) {
	report.Measure(ctx, d.inputs(ctx), to)
}

// Status describes the node. It reads the positions of the host's PCI devices, and asks the kubelet
// for its pods.
func (d *Driver) Status(ctx context.Context) *nodestatus.Status { return report.Status(d.inputs(ctx)) }

// Trial is what the driver says of another policy.
type Trial struct {
	// Slices are what it would publish now.
	Slices []resourceapi.ResourceSlice
	// Unapplied is what of rails and ipam does not apply on the node. Notes are as in [nodestatus.Status].
	Unapplied, Notes []string
}

// Try tries another policy. It changes nothing.
func (d *Driver) Try(ctx context.Context, c *policy.Config) (out Trial) {
	decided := d.offer.Try(ctx, c)
	for i, s := range decided.Slices() {
		one := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", d.cfg.NodeName, i)}}
		one.Spec = resourceapi.ResourceSliceSpec{
			Driver: rdma.Domain, NodeName: &d.cfg.NodeName, Pool: resourceapi.ResourcePool{Name: d.cfg.NodeName},
			SharedCounters: s.SharedCounters, Devices: s.Devices,
		}
		out.Slices = append(out.Slices, one)
	}
	out.Unapplied = decided.Unapplied
	out.Notes = slices.Concat(decided.Features(d.offer).Notes(), c.Unmatched(decided.Result))
	return out
}

// inputs collects what the status is made from.
func (d *Driver) inputs(ctx context.Context) report.Inputs {
	view, policy, decided := d.node.View(ctx), d.offer.HealthPolicy(), d.offer.Decision(ctx)
	in := report.Inputs{
		Node: d.cfg.NodeName, Version: version.String("dra-driver"), Started: d.kubelet.started, Now: d.cfg.now(),
		View: view, Decision: &decided.Result, Published: d.offer.Published(),
		Taints: view.Health.Taints(policy), Effect: policy.Effect,
		Registered: d.kubelet.registered.Load(), NRIConnected: d.pods.Connected(), Problems: d.problems(view),
		Refused: d.offer.Policy.Refused() != nil,
		IPAM:    blocksOf(d.offer.NodeBlocks(), d.given), Troubles: d.cfg.Troubles, Events: d.report.History(),
		Features: decided.Features(d.offer),
		Cgroups:  sysfs.DirFS(filepath.Join(d.cfg.HostRoot, "sys/fs/cgroup")),
	}
	if in.Pods, in.NoPods = d.kubelet.pods.Claims(ctx); in.NoPods != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Metrics and status have no pods", "reason", in.NoPods.Error())
	}
	return in
}

// problems returns the problems that concern more than one HCA.
func (d *Driver) problems(view node.View) (out []error) {
	if err := d.offer.Withheld(); err != nil {
		out = append(out, fmt.Errorf("no RDMA device is published: %w", err))
	}
	if r := d.offer.Policy.Refused(); r != nil {
		out = append(out, errors.New(r.Message()))
	}
	if err, _ := d.offer.Unpublished(); err != nil {
		out = append(out, err)
	}
	if err := d.offer.Unbound(); err != nil {
		out = append(out, err)
	}
	if view.NetnsMode == rdma.NetnsExclusive && !d.node.Moves.Possible() {
		out = append(out, node.ErrExclusive)
	}
	if err := d.pods.Trouble(); err != nil {
		out = append(out, err)
	}
	for _, b := range d.offer.NodeBlocks() {
		if b.Err != nil {
			out = append(out, fmt.Errorf("claims get no address of ipam %s: %w", b.IPAM, b.Err))
		}
	}
	return out
}

// blocksOf returns the node's blocks with the addresses that pods have of them. It reads the addresses, which are in
// files, only for a node with blocks.
func blocksOf(all []offer.NodeBlock, read func() []attach.Address) (out []blocks.Usage) {
	if len(all) == 0 {
		return nil
	}
	given := read()
	for _, b := range all {
		one := blocks.Usage{IPAM: b.IPAM, Subnet: b.Subnet, Addresses: []blocks.Address{}}
		if b.Err != nil {
			one.Problem = b.Err.Error()
		} else {
			one.Block, one.Size = b.Block.Block.String(), b.Block.Size()
		}
		for _, a := range given {
			if a.IPAM == b.IPAM {
				one.Addresses = append(one.Addresses, blocks.Address{
					Address: a.Address.String(), Interface: a.Interface, Pod: a.Pod, Claim: a.Claim, Device: a.Device,
				})
			}
		}
		out = append(out, one)
	}
	return out
}

// onlyPod returns the pod of a claim that was made for this pod from a template. It asks the kubelet and sends no
// request to the API server. It returns nil if the pod is unknown.
func (d *Driver) onlyPod(ctx context.Context, claim corev1.ObjectReference) *corev1.ObjectReference {
	p, err := d.store.Get(claim.UID)
	if err != nil || p == nil || p.Only == "" {
		return nil
	}
	listed, err := d.kubelet.pods.Claims(ctx)
	pods := listed[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
	if err != nil || len(pods) != 1 {
		return nil
	}
	return new(event.PodReference(claim.Namespace, pods[0].Name, p.Only))
}

// attachedBy returns a function that describes the network interface that a pod got with a device of a claim. The
// function returns nil if the driver attached none.
func attachedBy(attacher *attach.Attacher) func(*plan.Plan, plan.Device) *resourceapi.NetworkDeviceData {
	return func(p *plan.Plan, dev plan.Device) *resourceapi.NetworkDeviceData {
		if attacher == nil || dev.Network == nil {
			return nil
		}
		state := attacher.State(p.UID, dev.Device)
		if state == nil {
			return nil
		}
		ips := state.Addresses[:min(len(state.Addresses), report.MaxIPs)]
		return &resourceapi.NetworkDeviceData{InterfaceName: state.Name, HardwareAddress: state.MAC, IPs: ips}
	}
}
