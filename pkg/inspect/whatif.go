package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
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
	*view
	nodes    []*corev1.Node // to which the pod can go
	shut     []*corev1.Node // to which it cannot
	claims   []*resourceapi.ResourceClaim
	rulings  []*Ruling // of all requests
	remedies []Remedy
	never    bool // the claims would not fit on an idle cluster either
}

// try calls the allocator for the claims after a change.
func (w *whatIf) try(
	ctx context.Context, change Change, what string,
	edit func([]*resourceapi.ResourceClaim), ended func(*resourceapi.ResourceClaim) bool,
) (bool, error) {
	claims := w.claims
	if edit != nil {
		claims = nil
		for _, c := range w.claims {
			claims = append(claims, c.DeepCopy())
		}
		edit(claims)
	}
	node, err := w.fits(ctx, w.nodes, claims, ended)
	if err == nil && node != "" {
		w.remedies = append(w.remedies, Remedy{change, what, node})
	}
	return node != "", err
}

// run tries every change. It keeps the results also if the time is over.
func (w *whatIf) run(ctx context.Context) error {
	if ok, err := w.try(ctx, ChangeNothing, "nothing changed", nil, nil); ok || err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		w.constraints, w.selectors, w.tolerations, w.counts, w.capacity, w.ends, w.others, w.elsewhere,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(w.remedies, func(r Remedy) bool { return r.Change == ChangeEnd }) {
		return nil
	}
	all := func(*resourceapi.ResourceClaim) bool { return true }
	ok, err := w.try(ctx, ChangeIdle, "all claims of others ended", nil, all)
	w.never = err == nil && !ok
	return err
}

func (w *whatIf) constraints(ctx context.Context) error {
	for i, claim := range w.claims {
		for j, constraint := range claim.Spec.Devices.Constraints {
			what := fmt.Sprintf("constraint %d (%s) of %s were left out", j+1, constraintText(constraint), claim.Name)
			_, err := w.try(ctx, ChangeConstraint, what, func(claims []*resourceapi.ResourceClaim) {
				devices := &claims[i].Spec.Devices
				devices.Constraints = slices.Delete(devices.Constraints, j, j+1)
			}, nil)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func constraintText(c resourceapi.DeviceConstraint) string {
	text := "matchAttribute " + string(deref(c.MatchAttribute))
	if c.DistinctAttribute != nil {
		text = "distinctAttribute " + string(*c.DistinctAttribute)
	}
	if len(c.Requests) > 0 {
		text += " of " + strings.Join(c.Requests, ", ")
	}
	return text
}

func (w *whatIf) selectors(ctx context.Context) error {
	for i, claim := range w.claims {
		for _, r := range requestsOf(claim) {
			for j := range r.selectors {
				what := fmt.Sprintf("selector %d of request %s were left out", j+1, r.name)
				_, err := w.try(ctx, ChangeSelector, what, edits(i, r.name, func(f fields) {
					*f.selectors = slices.Delete(*f.selectors, j, j+1)
				}), nil)
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// edits returns a function that changes one request of one claim, or all requests for "".
func edits(claim int, request string, edit func(fields)) func([]*resourceapi.ResourceClaim) {
	return func(claims []*resourceapi.ResourceClaim) {
		editRequests(claims[claim], func(name string, f fields) {
			if request == "" || name == request {
				edit(f)
			}
		})
	}
}

// tolerations tries to tolerate each taint that rules devices out, then all of them.
func (w *whatIf) tolerations(ctx context.Context) error {
	var keys []string
	for _, r := range w.rulings {
		if r.Reason == RuledTaint {
			keys = appendNew(keys, r.taint)
		}
	}
	tolerate := func(keys ...string) func([]*resourceapi.ResourceClaim) {
		return func(claims []*resourceapi.ResourceClaim) {
			for i := range claims {
				edits(i, "", func(f fields) {
					for _, key := range keys {
						toleration := resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists}
						*f.tolerations = append(*f.tolerations, toleration)
					}
				})(claims)
			}
		}
	}
	found := false
	for _, key := range keys {
		what := fmt.Sprintf("the taint %s were tolerated, or its cause repaired", key)
		ok, err := w.try(ctx, ChangeToleration, what, tolerate(key), nil)
		if err != nil {
			return err
		}
		found = found || ok
	}
	if found || len(keys) < 2 {
		return nil
	}
	what := "the taints " + strings.Join(keys, ", ") + " were tolerated, or their causes repaired"
	_, err := w.try(ctx, ChangeToleration, what, tolerate(keys...), nil)
	return err
}

// counts finds the largest number of devices that a request could get.
func (w *whatIf) counts(ctx context.Context) error {
	for i, claim := range w.claims {
		for _, r := range requestsOf(claim) {
			for n := min(r.count-1, resourceapi.AllocationResultsMaxSize); n > 0; n-- {
				what := fmt.Sprintf("request %s asked for %d of %s instead of %d", r.name, n, r.class, r.count)
				ok, err := w.try(ctx, ChangeCount, what, edits(i, r.name, func(f fields) { *f.count = n }), nil)
				if err != nil {
					return err
				}
				if ok {
					break
				}
			}
		}
	}
	return nil
}

func (w *whatIf) capacity(ctx context.Context) error {
	for i, claim := range w.claims {
		for _, r := range requestsOf(claim) {
			if r.capacity == nil {
				continue
			}
			what := fmt.Sprintf("request %s asked for the default capacity", r.name)
			_, err := w.try(ctx, ChangeCapacity, what, edits(i, r.name, func(f fields) { *f.capacity = nil }), nil)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ends tries the end of each claim that holds devices of the requests' classes.
func (w *whatIf) ends(ctx context.Context) error {
	var inTheWay []*resourceapi.ResourceClaim
	for _, r := range w.rulings {
		for _, claim := range r.holders() {
			inTheWay = appendNew(inTheWay, claim)
		}
	}
	for _, claim := range inTheWay[:min(len(inTheWay), maxEnds)] {
		ended := func(c *resourceapi.ResourceClaim) bool { return c == claim }
		node, err := w.fits(ctx, w.nodesOf(claim), w.claims, ended)
		if err != nil {
			return err
		}
		if node != "" {
			what := fmt.Sprintf("claim %s%s ended", claimName(claim), usedBy(claim))
			w.remedies = append(w.remedies, Remedy{ChangeEnd, what, node})
		}
	}
	return nil
}

// nodesOf returns the nodes with devices of a claim. Its end changes nothing on other
// nodes.
func (w *whatIf) nodesOf(claim *resourceapi.ResourceClaim) []*corev1.Node {
	var out []*corev1.Node
	for _, r := range resultsOf(claim) {
		p := w.pool[poolID{r.Driver, r.Pool}]
		if p == nil {
			continue
		}
		i := slices.IndexFunc(p.devices, func(d *device) bool { return d.Name == r.Device })
		if i < 0 {
			continue
		}
		for _, n := range w.nodes {
			if w.on(p.devices[i], n) {
				out = appendNew(out, n)
			}
		}
	}
	return out
}

// usedBy names the pods of a claim.
func usedBy(claim *resourceapi.ResourceClaim) string {
	pods := podsOf(claim)
	if len(pods) == 0 {
		return ""
	}
	return " (" + list(pods, "pod", 3) + ")"
}

// others tries each of the pod's claims alone. Claims that fit only alone need one common claim,
// or other nodes.
func (w *whatIf) others(ctx context.Context) error {
	if len(w.claims) < 2 {
		return nil
	}
	for _, claim := range w.claims {
		node, err := w.fits(ctx, w.nodes, []*resourceapi.ResourceClaim{claim}, nil)
		if err != nil {
			return err
		}
		if node != "" {
			w.remedies = append(w.remedies, Remedy{ChangeOthers, claim.Name + " were the pod's only claim", node})
		}
	}
	return nil
}

// elsewhere tries the nodes where the pod cannot go.
func (w *whatIf) elsewhere(ctx context.Context) error {
	node, err := w.fits(ctx, w.shut, w.claims, nil)
	if err == nil && node != "" {
		w.remedies = append(w.remedies, Remedy{ChangeNodes, "the pod could go to node " + node, node})
	}
	return err
}

// timeIsOver reports whether an error means that the time is over.
func timeIsOver(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
