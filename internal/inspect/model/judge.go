package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Reason is the kind of a Ruling.
type Reason string

// The reasons, in the order of the checks.
const (
	RuledSelector Reason = "selector" // a selector of the request
	RuledPool     Reason = "pool"     // the device's pool is invalid
	RuledNode     Reason = "node"     // the pod cannot go to the device's node
	RuledTaint    Reason = "taint"
	RuledClaim    Reason = "allocated" // another claim holds the device
	RuledCapacity Reason = "capacity"  // other claims hold too much of it
	RuledCounters Reason = "counters"  // a device that shares counters with it is allocated
)

var reasonOrder = []Reason{RuledClaim, RuledSelector, RuledTaint, RuledCapacity, RuledCounters, RuledPool, RuledNode}

// Ruling is a reason why a request cannot get some devices.
type Ruling struct {
	Reason Reason `json:"reason"`
	// Detail is the selector, the taint, or why the pod cannot go to the node.
	Detail  string   `json:"detail,omitempty"`
	Devices []string `json:"devices"`
	// Claims hold the devices, or devices that exclude them: namespace/name.
	Claims []string `json:"claims,omitempty"`

	Held   map[*resourceapi.ResourceClaim]int `json:"-"` // the number of devices that each holds
	Taints []Taint                            `json:"-"`
}

// RequestReport is the result for the devices of a request's class.
type RequestReport struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	// Count is 0 for all devices that match.
	Count int64 `json:"count"`
	// Devices counts the devices of the class, and Nodes the nodes with one.
	Devices int `json:"devices"`
	Nodes   int `json:"nodes"`
	// RuledOut are the devices that the request cannot get, by reason. Free are the others, by
	// node. Devices without a node of their own are under "".
	RuledOut []*Ruling           `json:"ruledOut,omitempty"`
	Free     map[string][]string `json:"free,omitempty"`
	// Matching are the devices, by node, that match the selectors, whether they are free or not.
	Matching map[string][]*Device `json:"-"`

	// Error is why the devices were not checked.
	Error string `json:"error,omitempty"`

	// LacksShares counts the shared devices that only one claim can have, since the API server lacks shares.
	LacksShares int `json:"lacksShares,omitempty"`
}

// Best returns the node with the most free devices, and the number of devices that a pod could get
// there. Devices without a node of their own, such as some on a network, count for every node.
func (r *RequestReport) Best() (node string, n int) {
	for _, name := range slices.Sorted(maps.Keys(r.Free)) {
		if name != "" && len(r.Free[name]) > n {
			node, n = name, len(r.Free[name])
		}
	}
	if node == "" {
		node = "any"
	}
	return node, n + len(r.Free[""])
}

// Enough reports whether a node has enough devices for the request alone.
func (r *RequestReport) Enough() bool {
	if r.Count > 0 {
		_, n := r.Best()
		return int64(n) >= r.Count
	}
	for node, free := range r.Free {
		if len(free) == len(r.Matching[node]) {
			return true
		}
	}
	return false
}

// Judge determines for each device of a request's class whether the request could get it alone, and
// the reason if not. shut has the nodes where the pod cannot go, with the reason.
func (v *View) Judge(ctx context.Context, r Request, shut map[string]string) (*RequestReport, error) {
	report := &RequestReport{
		Name: r.Name, Class: r.Class, Count: r.Count, Free: map[string][]string{}, Matching: map[string][]*Device{},
	}
	class := v.Classes[r.Class]
	switch {
	case class == nil && v.Cluster.Unread.Has(Classes):
		report.Error = "its devices are not known, since the class could not be read"
	case class == nil:
		report.Error = "the class does not exist"
	case v.Cluster.Unread.Has(Slices):
		report.Error = "its devices are not known, since the ResourceSlices could not be read"
	}
	if report.Error != "" {
		return report, nil
	}
	devices, err := v.ofClass(ctx, class)
	if err != nil {
		return report, err
	}
	rulings := map[string]*Ruling{}
	on := map[string]bool{}
	for _, d := range devices {
		on[d.Node()] = true
		if d.LacksShares() {
			report.LacksShares++
		}
		ruling, err := v.rule(ctx, r, d, shut)
		if err != nil {
			return report, err
		}
		if ruling.Reason != RuledSelector {
			report.Matching[d.Node()] = append(report.Matching[d.Node()], d)
		}
		if ruling.Reason == "" {
			report.Free[d.Node()] = append(report.Free[d.Node()], d.String())
			continue
		}
		ruling = merged(rulings, ruling)
		ruling.Devices = append(ruling.Devices, d.String())
	}
	report.Devices, report.Nodes = len(devices), len(on)
	report.RuledOut = sorted(rulings)
	return report, nil
}

// merged adds a ruling to the one with the same reason, and returns that one.
func merged(rulings map[string]*Ruling, ruling *Ruling) *Ruling {
	key := string(ruling.Reason) + ruling.Detail
	all := rulings[key]
	if all == nil {
		rulings[key] = ruling
		return ruling
	}
	for claim := range ruling.Held {
		all.Held[claim]++
	}
	return all
}

func sorted(rulings map[string]*Ruling) []*Ruling {
	out := slices.SortedFunc(maps.Values(rulings), func(a, b *Ruling) int {
		return cmp.Or(
			cmp.Compare(slices.Index(reasonOrder, a.Reason), slices.Index(reasonOrder, b.Reason)),
			cmp.Compare(len(b.Devices), len(a.Devices)), cmp.Compare(a.Detail, b.Detail),
		)
	})
	for _, r := range out {
		for _, claim := range r.Holders() {
			r.Claims = append(r.Claims, ClaimName(claim))
		}
	}
	return out
}

// Holders returns the claims of a ruling, those with the most devices first.
func (r *Ruling) Holders() []*resourceapi.ResourceClaim {
	return slices.SortedFunc(maps.Keys(r.Held), func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(cmp.Compare(r.Held[b], r.Held[a]), cmp.Compare(ClaimName(a), ClaimName(b)))
	})
}

// rule returns the first reason why a request cannot get a device. The ruling has no reason if the
// request can get it.
func (v *View) rule(ctx context.Context, r Request, d *Device, shut map[string]string) (*Ruling, error) {
	if i, err := v.CEL.FirstMismatch(ctx, *r.Selectors, d); err != nil {
		return &Ruling{}, fmt.Errorf("selector %d of request %s: %w", i+1, r.Name, err)
	} else if i >= 0 {
		expression := text.Foreign((*r.Selectors)[i].CEL.Expression)
		return &Ruling{Reason: RuledSelector, Detail: fmt.Sprintf("selector %d: %s", i+1, expression)}, nil
	}
	if v.pool[idOf(d.Slice)].invalid {
		return &Ruling{Reason: RuledPool}, nil
	}
	if why := v.unreachable(d, shut); why != "" {
		return &Ruling{Reason: RuledNode, Detail: why}, nil
	}
	if taints := Untolerated(d, *r.Tolerations); len(taints) > 0 {
		return &Ruling{Reason: RuledTaint, Taints: taints, Detail: TaintNames(taints)}, nil
	}
	if r.Admin {
		return &Ruling{}, nil
	}
	if claims := v.Holdings.on(d.ID, holder.exclusive); len(claims) > 0 {
		return &Ruling{Reason: RuledClaim, Held: claims}, nil
	}
	return v.ruleByAmount(ctx, *r.Capacity, d)
}

// ruleByAmount asks the allocator whether a request could get a device that is shared, or that
// shares counters with others.
func (v *View) ruleByAmount(
	ctx context.Context, capacity *resourceapi.CapacityRequirements, d *Device,
) (*Ruling, error) {
	if len(d.ConsumesCounters) == 0 && !ptr.Deref(d.AllowMultipleAllocations, false) {
		return &Ruling{}, nil
	}
	ok, err := v.available(ctx, d, capacity)
	if err != nil || ok {
		return &Ruling{}, err
	}
	if len(d.ConsumesCounters) > 0 {
		free := *d.Device
		free.ConsumesCounters = nil
		ok, err := v.available(ctx, &Device{&free, d.ID, d.Slice, d.rules}, capacity)
		if err != nil {
			return &Ruling{}, err
		}
		if ok {
			return &Ruling{Reason: RuledCounters, Detail: "of " + counterSets(d), Held: v.counterHolders(d)}, nil
		}
	}
	return &Ruling{Reason: RuledCapacity, Detail: capacities(capacity, d), Held: v.Holdings.on(d.ID, holder.takes)}, nil
}

// capacities returns the requested and the total capacities of a device.
func capacities(want *resourceapi.CapacityRequirements, d *Device) string {
	var wanted map[resourceapi.QualifiedName]resource.Quantity
	if want != nil {
		wanted = want.Requests
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		amount, ok := wanted[name]
		if !ok && c.RequestPolicy != nil && c.RequestPolicy.Default != nil && !c.RequestPolicy.Default.IsZero() {
			amount, ok = *c.RequestPolicy.Default, true
		}
		if ok {
			parts = append(parts, fmt.Sprintf("%s of %s %s", amount.String(), c.Value.String(), name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if _, ok := d.Capacity[name]; !ok {
			parts = append(parts, fmt.Sprintf("%s, which it does not have", name))
		}
	}
	return strings.Join(parts, ", ")
}

func counterSets(d *Device) string {
	var names []string
	for _, c := range d.ConsumesCounters {
		names = append(names, c.CounterSet)
	}
	return strings.Join(names, ", ")
}

// counterHolders returns the claims with a device that consumes the same counters.
func (v *View) counterHolders(d *Device) map[*resourceapi.ResourceClaim]int {
	own := d.counters()
	out := map[*resourceapi.ResourceClaim]int{}
	for _, other := range v.pool[idOf(d.Slice)].devices {
		if other.counters().Intersection(own).Len() > 0 {
			maps.Copy(out, v.Holdings.on(other.ID, holder.takes))
		}
	}
	return out
}

// counters returns the counters that a device consumes.
func (d *Device) counters() sets.Set[string] {
	out := sets.Set[string]{}
	for _, c := range d.ConsumesCounters {
		for name := range c.Counters {
			out.Insert(c.CounterSet + "/" + name)
		}
	}
	return out
}

// nodeOf returns a node that can use a device, nil if the cluster has none.
func (v *View) nodeOf(d *Device) *corev1.Node {
	if name := d.Node(); name != "" {
		// A device has the name of its node, also for users who may not read nodes.
		return cmp.Or(v.Nodes[name], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for i := range v.Cluster.Nodes {
		if d.On(&v.Cluster.Nodes[i], v.Features) {
			return &v.Cluster.Nodes[i]
		}
	}
	return nil
}
