package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// previewTime bounds the wait for the API server's words: its controller answers within a second, or does not run.
const (
	previewTime = 10 * time.Second
	lookEvery   = 100 * time.Millisecond
)

// Opinion is what the API server says of some rules.
type Opinion struct {
	// Rules are the names of the rules about which it says the same.
	Rules []string `json:"rules"`
	// Message is the text of its condition, verbatim; "" if it says nothing in time.
	Message string `json:"message"`
}

// Preview asks the API server what rules with the effect NoExecute would do: it writes a twin of each with the effect
// None, reads the condition that the server's controller sets, and removes the twins, also when it is interrupted.
// A twin keeps no claim away. If this program is killed, the next drain or undrain of the node removes the twins.
func (r *Rules) Preview(ctx context.Context, rules []resourceapi.DeviceTaintRule) (out []Opinion, err error) {
	var twins []*resourceapi.DeviceTaintRule
	defer func() {
		for _, twin := range twins {
			if _, e := r.Remove(context.WithoutCancel(ctx), twin); e != nil && err == nil {
				err = e
			}
		}
	}()
	for i := range rules {
		twin := twinOf(&rules[i])
		if err := r.write(ctx, r.rest.Post(), "", twin); err != nil {
			return nil, previewError(err, twin.Name)
		}
		twins = append(twins, twin)
	}
	for i, twin := range twins {
		message, err := r.opinion(ctx, twin.Name)
		if err != nil {
			return nil, err
		}
		same := slices.IndexFunc(out, func(o Opinion) bool { return o.Message == message })
		if same < 0 {
			out, same = append(out, Opinion{Message: message}), len(out)
		}
		out[same].Rules = append(out[same].Rules, rules[i].Name)
		if message == "" { // the others would not be answered either
			break
		}
	}
	return out, nil
}

func previewError(err error, name string) error {
	if answer.Said(err, metav1.StatusReasonAlreadyExists, ruleResource, name) {
		return fmt.Errorf("%w: somebody drains the same at this moment, or was interrupted less than a minute ago; "+
			"nothing was changed, try again", err)
	}
	return err
}

// twinOf returns a rule that selects what another one selects, and does nothing.
func twinOf(rule *resourceapi.DeviceTaintRule) *resourceapi.DeviceTaintRule {
	twin := rule.DeepCopy()
	twin.Name = strings.Replace(rule.Name, "rdma-drain.", "rdma-look.", 1)
	twin.Labels = map[string]string{model.DrainPreview: rule.Labels[model.DrainKey]}
	twin.Annotations = nil
	twin.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNone
	return twin
}

// opinion waits for the condition of a rule, and returns its message.
func (r *Rules) opinion(ctx context.Context, name string) (message string, _ error) {
	err := wait.PollUntilContextTimeout(ctx, lookEvery, previewTime, true, func(ctx context.Context) (bool, error) {
		rule, err := r.get(ctx, name)
		if err != nil {
			return false, fmt.Errorf("read DeviceTaintRule %s: %w", name, err)
		}
		for _, c := range rule.Status.Conditions {
			if c.Type == resourceapi.DeviceTaintConditionEvictionInProgress && c.ObservedGeneration == rule.Generation {
				message = c.Message
				return true, nil
			}
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return "", nil
	}
	return message, err
}

// Left returns the twins that a killed program left behind for a node: those that are older than any preview takes.
func Left(rules []resourceapi.DeviceTaintRule, node string, now time.Time) (out []*resourceapi.DeviceTaintRule) {
	for i := range rules {
		s := rules[i].Spec.DeviceSelector
		old := now.Sub(rules[i].CreationTimestamp.Time) > time.Minute
		if old && rules[i].Labels[model.DrainPreview] != "" && s != nil && s.Pool != nil && *s.Pool == node &&
			rules[i].Spec.Taint.Key == model.DrainKey && rules[i].Spec.Taint.Effect == resourceapi.DeviceTaintEffectNone {
			out = append(out, &rules[i])
		}
	}
	return out
}
