package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Change is a kind of change that may make claims fit.
type Change string

// The changes, in the order of the attempts.
const (
	ChangeNothing    Change = "nothing"     // the claims fit as they are
	ChangeConstraint Change = "constraint"  // a constraint is left out
	ChangeSelector   Change = "selector"    // a selector is left out
	ChangeToleration Change = "toleration"  // a taint is tolerated or removed
	ChangeCount      Change = "count"       // fewer devices
	ChangeCapacity   Change = "capacity"    // the default capacity
	ChangeEnd        Change = "end"         // a claim of another pod ends
	ChangeOthers     Change = "otherClaims" // the pod's other claims are left out
	ChangeNodes      Change = "nodes"       // the pod may go to more nodes
	ChangeIdle       Change = "idle"        // every other claim ends
)

// Remedy is a change after which the claims fit.
type Remedy struct {
	Change Change `json:"change"`
	// What is the change in words: the condition of a sentence.
	What string `json:"what"`
	// Node is a node on which the claims fit then.
	Node string `json:"node"`
}

// maxEnds bounds the number of other claims whose end is tried, those with the most devices first.
const maxEnds = 32

// whatIf tries changes.
type whatIf struct {
	view     *model.View
	nodes    []*corev1.Node // to which the pod can go
	closed   []*corev1.Node // to which it cannot
	claims   []*resourceapi.ResourceClaim
	rulings  []*model.Ruling // of all requests
	remedies []Remedy
	never    bool  // the claims would not fit on an idle cluster either
	answers  int   // of the allocator: the first is about the claims as they are
	err      error // the first error; after it nothing is tried
}

// try calls the allocator for claims and nodes, and reports whether the claims fit.
func (w *whatIf) try(
	ctx context.Context, change Change, what string,
	nodes []*corev1.Node, claims []*resourceapi.ResourceClaim, ended func(*resourceapi.ResourceClaim) bool,
) bool {
	if w.err != nil {
		return false
	}
	var node string
	if node, w.err = w.view.Fits(ctx, nodes, claims, ended); w.err == nil {
		w.answers++
	}
	if node != "" {
		w.remedies = append(w.remedies, Remedy{change, what, node})
	}
	return node != ""
}

// edit tries the claims after an edit.
func (w *whatIf) edit(ctx context.Context, change Change, what string, edit func([]*resourceapi.ResourceClaim)) bool {
	var claims []*resourceapi.ResourceClaim
	for _, c := range w.claims {
		claims = append(claims, c.DeepCopy())
	}
	edit(claims)
	return w.try(ctx, change, what, w.nodes, claims, nil)
}

// run tries every change. It keeps the results also if the time is over.
func (w *whatIf) run(ctx context.Context) error {
	if w.try(ctx, ChangeNothing, "nothing changed", w.nodes, w.claims, nil) {
		return nil
	}
	for _, step := range []func(context.Context){
		w.tryWithoutConstraints, w.tryWithoutSelectors, w.tryTolerations, w.tryFewer, w.tryDefaultCapacity, w.tryEnds,
		w.tryOneClaim, w.tryOtherNodes,
	} {
		step(ctx)
	}
	if !slices.ContainsFunc(w.remedies, func(r Remedy) bool { return r.Change == ChangeEnd }) {
		all := func(*resourceapi.ResourceClaim) bool { return true }
		w.never = !w.try(ctx, ChangeIdle, "all claims of others ended", w.nodes, w.claims, all) && w.err == nil
	}
	return w.err
}

func (w *whatIf) tryWithoutConstraints(ctx context.Context) {
	for i, claim := range w.claims {
		for j, constraint := range claim.Spec.Devices.Constraints {
			what := fmt.Sprintf("constraint %d (%s) of %s were left out", j+1, constraintText(constraint), claim.Name)
			w.edit(ctx, ChangeConstraint, what, func(claims []*resourceapi.ResourceClaim) {
				devices := &claims[i].Spec.Devices
				devices.Constraints = slices.Delete(devices.Constraints, j, j+1)
			})
		}
	}
}

func constraintText(c resourceapi.DeviceConstraint) string {
	text := "matchAttribute " + string(ptr.Deref(c.MatchAttribute, ""))
	if c.DistinctAttribute != nil {
		text = "distinctAttribute " + string(*c.DistinctAttribute)
	}
	if len(c.Requests) > 0 {
		text += " of " + strings.Join(c.Requests, ", ")
	}
	return text
}

func (w *whatIf) tryWithoutSelectors(ctx context.Context) {
	for i, claim := range w.claims {
		for _, r := range model.RequestsOf(claim) {
			for j := range *r.Selectors {
				what := fmt.Sprintf("selector %d of request %s were left out", j+1, r.Name)
				w.edit(ctx, ChangeSelector, what, edits(i, r.Name, func(r model.Request) {
					*r.Selectors = slices.Delete(*r.Selectors, j, j+1)
				}))
			}
		}
	}
}

// edits returns a function that changes one request of one claim.
func edits(claim int, name string, edit func(model.Request)) func([]*resourceapi.ResourceClaim) {
	return func(claims []*resourceapi.ResourceClaim) {
		for _, r := range model.RequestsOf(claims[claim]) {
			if r.Name == name {
				edit(r)
			}
		}
	}
}

// tryTolerations tries to tolerate each taint that rules devices out, then all of them.
func (w *whatIf) tryTolerations(ctx context.Context) {
	var keys []string
	var taints []model.Taint
	for _, r := range w.rulings {
		taints = append(taints, r.Taints...)
	}
	for _, t := range taints {
		keys = model.AppendNew(keys, t.Key)
	}
	tolerate := func(noun string, keys ...string) bool {
		of := slices.DeleteFunc(slices.Clone(taints), func(t model.Taint) bool { return !slices.Contains(keys, t.Key) })
		gone := "gone"
		if ways := ends(of); len(ways) == 1 { // with several, a node may need only one of them
			gone += " (" + ways[0] + ")"
		}
		what := fmt.Sprintf("the %s %s were %s, or tolerated", noun, strings.Join(keys, ", "), gone)
		return w.edit(ctx, ChangeToleration, what, func(claims []*resourceapi.ResourceClaim) {
			for _, claim := range claims {
				for _, r := range model.RequestsOf(claim) {
					for _, key := range keys {
						toleration := resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists}
						*r.Tolerations = append(*r.Tolerations, toleration)
					}
				}
			}
		})
	}
	found := false
	for _, key := range keys {
		found = tolerate("taint", key) || found
	}
	if !found && len(keys) > 1 {
		tolerate("taints", keys...)
	}
}

// tryFewer finds the largest number of devices that a request could get.
func (w *whatIf) tryFewer(ctx context.Context) {
	for i, claim := range w.claims {
		for _, r := range model.RequestsOf(claim) {
			for n := min(r.Count-1, resourceapi.AllocationResultsMaxSize); n > 0; n-- {
				what := fmt.Sprintf("request %s asked for %d of %s instead of %d", r.Name, n, r.Class, r.Count)
				if w.edit(ctx, ChangeCount, what, edits(i, r.Name, func(r model.Request) { *r.Number = n })) {
					break
				}
			}
		}
	}
}

func (w *whatIf) tryDefaultCapacity(ctx context.Context) {
	for i, claim := range w.claims {
		for _, r := range model.RequestsOf(claim) {
			if *r.Capacity != nil {
				what := fmt.Sprintf("request %s asked for the default capacity", r.Name)
				w.edit(ctx, ChangeCapacity, what, edits(i, r.Name, func(r model.Request) { *r.Capacity = nil }))
			}
		}
	}
}

// tryEnds tries the end of each claim that holds devices of the requests' classes.
func (w *whatIf) tryEnds(ctx context.Context) {
	var inTheWay []*resourceapi.ResourceClaim
	for _, r := range w.rulings {
		for _, claim := range r.Holders() {
			inTheWay = model.AppendNew(inTheWay, claim)
		}
	}
	for _, claim := range inTheWay[:min(len(inTheWay), maxEnds)] {
		what := fmt.Sprintf("claim %s%s ended", model.ClaimName(claim), usedBy(claim))
		ended := func(c *resourceapi.ResourceClaim) bool { return c == claim }
		w.try(ctx, ChangeEnd, what, w.nodesOf(claim), w.claims, ended)
	}
}

// nodesOf returns the nodes with devices of a claim. Its end changes nothing on other
// nodes.
func (w *whatIf) nodesOf(claim *resourceapi.ResourceClaim) []*corev1.Node {
	var out []*corev1.Node
	for _, r := range model.ResultsOf(claim) {
		d := w.view.Known[structured.MakeDeviceID(r.Driver, r.Pool, r.Device)]
		for _, n := range w.nodes {
			if d != nil && d.On(n, w.view.Features) {
				out = model.AppendNew(out, n)
			}
		}
	}
	return out
}

// usedBy names the pods of a claim.
func usedBy(claim *resourceapi.ResourceClaim) string {
	pods := model.PodsOf(claim)
	if len(pods) == 0 {
		return ""
	}
	return " (" + model.List(pods, "pod", 3) + ")"
}

// tryOneClaim tries each of the pod's claims alone. Claims that fit only alone need one common claim,
// or other nodes.
func (w *whatIf) tryOneClaim(ctx context.Context) {
	if len(w.claims) < 2 {
		return
	}
	for i, claim := range w.claims {
		w.try(ctx, ChangeOthers, claim.Name+" were the pod's only claim", w.nodes, w.claims[i:i+1], nil)
	}
}

// tryOtherNodes tries the nodes where the pod cannot go.
func (w *whatIf) tryOtherNodes(ctx context.Context) {
	if w.try(ctx, ChangeNodes, "", w.closed, w.claims, nil) {
		last := &w.remedies[len(w.remedies)-1]
		last.What = "the pod could go to node " + last.Node
	}
}
