package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Reason says what rules a device out for a request.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	RuledNode     Reason = "node"     // the pod cannot go to the device's node
	RuledSelector Reason = "selector" // a selector of the request
	RuledTaint    Reason = "taint"
	RuledClaim    Reason = "allocated" // another claim has the device
	RuledCapacity Reason = "capacity"  // other claims have too much of it
	RuledCounters Reason = "counters"  // a device that shares counters with it is allocated
)

var reasonOrder = []Reason{RuledClaim, RuledSelector, RuledTaint, RuledCapacity, RuledCounters, RuledNode}

// Ruling is why some devices are not for a request.
type Ruling struct {
	Reason Reason `json:"reason"`
	// Detail is the selector, the taint, or what keeps the pod off the node.
	Detail  string   `json:"detail,omitempty"`
	Devices []string `json:"devices"`
	// Claims hold the devices, or those that exclude them: namespace/name.
	Claims []string `json:"claims,omitempty"`

	claims map[*resourceapi.ResourceClaim]int // with how many of the devices each holds
	taint  string                             // the key
}

// RequestReport is what became of the devices of a request's class.
type RequestReport struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	// Count is 0 for all devices that match.
	Count int64 `json:"count"`
	// Devices of the class, and the nodes that have one.
	Devices int `json:"devices"`
	Nodes   int `json:"nodes"`
	// RuledOut are the devices that the request cannot have, by reason; Free those
	// that it could have, by node; those that are at no node of their own are below "".
	RuledOut []*Ruling           `json:"ruledOut,omitempty"`
	Free     map[string][]string `json:"free,omitempty"`

	// Error says why the devices were not looked at.
	Error string `json:"error,omitempty"`

	total map[string]int // by node, for requests for all
}

// Best returns the node with most free devices, and how many a pod could have there:
// devices at no node of their own, as some on a network, count everywhere.
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

// enough reports whether some node has what the request alone asks for.
func (r *RequestReport) enough() bool {
	if r.Count > 0 {
		_, n := r.Best()
		return int64(n) >= r.Count
	}
	for node, free := range r.Free {
		if len(free) == r.total[node] {
			return true
		}
	}
	return false
}

// judge finds for each device of a request's class whether the request could have it
// alone, and if not, why. Each shut node has the reason why the pod cannot go there.
func (v *view) judge(ctx context.Context, r request, shut map[string]string) (*RequestReport, error) {
	report := &RequestReport{Name: r.name, Class: r.class, Count: r.count, Free: map[string][]string{}, total: map[string]int{}}
	class := v.classes[r.class]
	if class == nil {
		report.Error = "the class does not exist"
		return report, nil
	}
	devices, err := v.ofClass(ctx, class)
	if err != nil {
		return report, err
	}
	rulings := map[string]*Ruling{}
	on := map[string]bool{}
	for _, d := range devices {
		on[d.node()] = true
		ruling, err := v.rule(ctx, r, d, shut)
		if err != nil {
			return report, err
		}
		if ruling.Reason != RuledSelector {
			report.total[d.node()]++
		}
		if ruling.Reason == "" {
			report.Free[d.node()] = append(report.Free[d.node()], d.String())
			continue
		}
		collect(rulings, ruling, d)
	}
	report.Devices, report.Nodes = len(devices), len(on)
	report.RuledOut = sorted(rulings)
	return report, nil
}

// collect adds a device to the ruling of its kind.
func collect(rulings map[string]*Ruling, ruling *Ruling, d *device) {
	key := string(ruling.Reason) + ruling.Detail
	all := rulings[key]
	if all == nil {
		all = &Ruling{Reason: ruling.Reason, Detail: ruling.Detail, taint: ruling.taint, claims: map[*resourceapi.ResourceClaim]int{}}
		rulings[key] = all
	}
	all.Devices = append(all.Devices, d.String())
	for claim := range ruling.claims {
		all.claims[claim]++
	}
}

func sorted(rulings map[string]*Ruling) []*Ruling {
	out := slices.SortedFunc(maps.Values(rulings), func(a, b *Ruling) int {
		return cmp.Or(
			cmp.Compare(slices.Index(reasonOrder, a.Reason), slices.Index(reasonOrder, b.Reason)),
			cmp.Compare(len(b.Devices), len(a.Devices)), cmp.Compare(a.Detail, b.Detail),
		)
	})
	for _, r := range out {
		for _, claim := range r.holders() {
			r.Claims = append(r.Claims, claimName(claim))
		}
	}
	return out
}

// holders returns the claims of a ruling, those with most devices first.
func (r *Ruling) holders() []*resourceapi.ResourceClaim {
	return slices.SortedFunc(maps.Keys(r.claims), func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(cmp.Compare(r.claims[b], r.claims[a]), cmp.Compare(claimName(a), claimName(b)))
	})
}

// rule returns the first thing that rules a device out for a request. The ruling has
// no reason if nothing does.
func (v *view) rule(ctx context.Context, r request, d *device, shut map[string]string) (*Ruling, error) {
	if i, err := v.firstMismatch(ctx, r.selectors, d); err != nil {
		return &Ruling{}, fmt.Errorf("selector %d of request %s: %w", i+1, r.name, err)
	} else if i >= 0 {
		return &Ruling{Reason: RuledSelector, Detail: fmt.Sprintf("selector %d: %s", i+1, oneLine(r.selectors[i].CEL.Expression))}, nil
	}
	if why, ok := shut[d.node()]; ok && d.node() != "" {
		return &Ruling{Reason: RuledNode, Detail: why}, nil
	}
	if taint := untolerated(d, r.tolerations); taint != nil {
		return &Ruling{Reason: RuledTaint, taint: taint.Key, Detail: fmt.Sprintf("%s (%s)", taint.Key, taint.Effect)}, nil
	}
	if r.admin {
		return &Ruling{}, nil
	}
	if claims := v.exclusiveHolders(d.id); len(claims) > 0 {
		return &Ruling{Reason: RuledClaim, claims: claims}, nil
	}
	return v.ruleByAmount(ctx, r, d)
}

// exclusiveHolders are the claims that have a device for themselves.
func (v *view) exclusiveHolders(id structured.DeviceID) map[*resourceapi.ResourceClaim]int {
	out := map[*resourceapi.ResourceClaim]int{}
	for _, h := range v.holders[id] {
		if !h.admin() && h.result.ShareID == nil {
			out[h.claim] = 1
		}
	}
	return out
}

// ruleByAmount asks the allocator whether there is enough of a device that is shared,
// or that shares counters with others.
func (v *view) ruleByAmount(ctx context.Context, r request, d *device) (*Ruling, error) {
	if len(d.ConsumesCounters) == 0 && !deref(d.AllowMultipleAllocations) {
		return &Ruling{}, nil
	}
	ok, err := v.available(ctx, d, r.capacity)
	if err != nil || ok {
		return &Ruling{}, err
	}
	if len(d.ConsumesCounters) > 0 {
		free := *d.Device
		free.ConsumesCounters = nil
		ok, err := v.available(ctx, &device{&free, d.id, d.slice}, r.capacity)
		if err != nil {
			return &Ruling{}, err
		}
		if ok {
			return &Ruling{Reason: RuledCounters, Detail: "of " + counterSets(d), claims: v.counterHolders(d)}, nil
		}
	}
	ruling := &Ruling{Reason: RuledCapacity, Detail: capacities(r.capacity, d), claims: map[*resourceapi.ResourceClaim]int{}}
	for _, h := range v.holders[d.id] {
		if !h.admin() {
			ruling.claims[h.claim] = 1
		}
	}
	return ruling, nil
}

// capacities says what a request wants of a device, and what this has in all.
func capacities(want *resourceapi.CapacityRequirements, d *device) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		amount := ""
		if want != nil {
			if q, ok := want.Requests[name]; ok {
				amount = q.String()
			}
		}
		if amount == "" && c.RequestPolicy != nil && c.RequestPolicy.Default != nil && !c.RequestPolicy.Default.IsZero() {
			amount = c.RequestPolicy.Default.String()
		}
		if amount != "" {
			parts = append(parts, fmt.Sprintf("%s of %s %s", amount, c.Value.String(), name))
		}
	}
	if want != nil {
		for _, name := range slices.Sorted(maps.Keys(want.Requests)) {
			if _, ok := d.Capacity[name]; !ok {
				parts = append(parts, fmt.Sprintf("%s, which it does not have", name))
			}
		}
	}
	return strings.Join(parts, ", ")
}

func counterSets(d *device) string {
	var names []string
	for _, c := range d.ConsumesCounters {
		names = append(names, c.CounterSet)
	}
	return strings.Join(names, ", ")
}

// counterHolders are the claims that have a device which takes of the same counters.
func (v *view) counterHolders(d *device) map[*resourceapi.ResourceClaim]int {
	takes := map[string]bool{}
	for _, c := range d.ConsumesCounters {
		for name := range c.Counters {
			takes[c.CounterSet+"/"+name] = true
		}
	}
	out := map[*resourceapi.ResourceClaim]int{}
	for _, other := range v.pool[idOf(d.slice)].devices {
		shares := slices.ContainsFunc(other.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool {
			for name := range c.Counters {
				if takes[c.CounterSet+"/"+name] {
					return true
				}
			}
			return false
		})
		if !shares {
			continue
		}
		for _, h := range v.holders[other.id] {
			out[h.claim] = 1
		}
	}
	return out
}

// errNoNode is returned for a device that no node of the cluster can use.
var errNoNode = errors.New("no node has the device")

// nodeOf returns a node that can use a device.
func (v *view) nodeOf(d *device) (*corev1.Node, error) {
	if name := d.node(); name != "" {
		// A device says where it is, also to those who may not read nodes.
		if n := v.nodes[name]; n != nil {
			return n, nil
		}
		n := &corev1.Node{}
		n.Name = name
		return n, nil
	}
	for i := range v.Nodes {
		if v.on(d, &v.Nodes[i]) {
			return &v.Nodes[i], nil
		}
	}
	return nil, fmt.Errorf("find a node for %s: %w", d, errNoNode)
}
