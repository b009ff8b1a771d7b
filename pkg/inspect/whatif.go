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

// Change is a kind of change after which claims fit.
type Change string

// The changes that are tried, in this order.
const (
	ChangeNothing    Change = "nothing"     // the claims fit as they are
	ChangeConstraint Change = "constraint"  // a constraint is left out
	ChangeSelector   Change = "selector"    // a selector is left out
	ChangeToleration Change = "toleration"  // a taint is tolerated, or goes
	ChangeCount      Change = "count"       // fewer devices
	ChangeCapacity   Change = "capacity"    // the default capacity
	ChangeEnd        Change = "end"         // a claim of somebody else ends
	ChangeOthers     Change = "otherClaims" // the pod's other claims are left out
	ChangeNodes      Change = "nodes"       // the pod may go to more nodes
	ChangeIdle       Change = "idle"        // every other claim ends
)

// Remedy is a change after which the allocator finds devices for all claims.
type Remedy struct {
	Change Change `json:"change"`
	// What is changed, in words: the condition of a sentence.
	What string `json:"what"`
	// Node is one on which the claims fit then.
	Node string `json:"node"`
}

// maxEnds bounds how many claims of others are tried: those with most devices.
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

// try asks the allocator for the claims after a change.
func (w *whatIf) try(ctx context.Context, change Change, what string, edit func([]*resourceapi.ResourceClaim), ended func(*resourceapi.ResourceClaim) bool) (bool, error) {
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

// run tries every change. It returns what it found when the time is over, too.
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
	ok, err := w.try(ctx, ChangeIdle, "all claims of others ended", nil, func(*resourceapi.ResourceClaim) bool { return true })
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

// edits changes one request of one claim, or all of them for "".
func edits(claim int, request string, edit func(fields)) func([]*resourceapi.ResourceClaim) {
	return func(claims []*resourceapi.ResourceClaim) {
		editRequests(claims[claim], func(name string, f fields) {
			if request == "" || name == request {
				edit(f)
			}
		})
	}
}

// tolerations tries to tolerate each taint that rules devices out, then all.
func (w *whatIf) tolerations(ctx context.Context) error {
	var keys []string
	for _, r := range w.rulings {
		if r.Reason == RuledTaint && !slices.Contains(keys, r.taint) {
			keys = append(keys, r.taint)
		}
	}
	tolerate := func(keys ...string) func([]*resourceapi.ResourceClaim) {
		return func(claims []*resourceapi.ResourceClaim) {
			for i := range claims {
				edits(i, "", func(f fields) {
					for _, key := range keys {
						*f.tolerations = append(*f.tolerations, resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists})
					}
				})(claims)
			}
		}
	}
	found := false
	for _, key := range keys {
		ok, err := w.try(ctx, ChangeToleration, fmt.Sprintf("the taint %s were tolerated, or its cause repaired", key), tolerate(key), nil)
		if err != nil {
			return err
		}
		found = found || ok
	}
	if found || len(keys) < 2 {
		return nil
	}
	_, err := w.try(ctx, ChangeToleration, "the taints "+strings.Join(keys, ", ")+" were tolerated, or their causes repaired", tolerate(keys...), nil)
	return err
}

// counts looks for the largest number of devices that a request could have.
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
			if _, err := w.try(ctx, ChangeCapacity, what, edits(i, r.name, func(f fields) { *f.capacity = nil }), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends tries what the end of each claim would change that is in the way.
func (w *whatIf) ends(ctx context.Context) error {
	var inTheWay []*resourceapi.ResourceClaim
	for _, r := range w.rulings {
		for _, claim := range r.holders() {
			if !slices.Contains(inTheWay, claim) {
				inTheWay = append(inTheWay, claim)
			}
		}
	}
	for _, claim := range inTheWay[:min(len(inTheWay), maxEnds)] {
		node, err := w.fits(ctx, w.nodesOf(claim), w.claims, func(c *resourceapi.ResourceClaim) bool { return c == claim })
		if err != nil {
			return err
		}
		if node != "" {
			w.remedies = append(w.remedies, Remedy{ChangeEnd, fmt.Sprintf("claim %s%s ended", claimName(claim), usedBy(claim)), node})
		}
	}
	return nil
}

// nodesOf returns the nodes that have devices of a claim. Its end changes nothing on
// others.
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
			if w.on(p.devices[i], n) && !slices.Contains(out, n) {
				out = append(out, n)
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

// others tries each of the pod's claims alone: what fails only together is to be
// asked for in one claim, or on other nodes.
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
			w.remedies = append(w.remedies, Remedy{ChangeOthers, fmt.Sprintf("%s were the pod's only claim", claim.Name), node})
		}
	}
	return nil
}

// elsewhere tries the nodes that the pod cannot go to.
func (w *whatIf) elsewhere(ctx context.Context) error {
	node, err := w.fits(ctx, w.shut, w.claims, nil)
	if err == nil && node != "" {
		w.remedies = append(w.remedies, Remedy{ChangeNodes, "the pod could go to node " + node, node})
	}
	return err
}

// timeIsOver reports whether an error only says so.
func timeIsOver(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
