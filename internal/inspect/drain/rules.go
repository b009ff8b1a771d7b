package drain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// ErrNotServed says that the API server has no DeviceTaintRules.
var ErrNotServed = errors.New("the API server serves no DeviceTaintRules")

var ruleResource = resourceapi.Resource(string(collect.Rules))

// maxAuthor bounds the name of a user in an annotation.
const maxAuthor = 256

// Rules writes DeviceTaintRules in the version that the API server serves.
type Rules struct {
	rest    rest.Interface
	version string
	author  string // the API server's name of the user, "" if it does not say
}

// Open finds the version. It returns ErrNotServed if there is none.
func Open(ctx context.Context, client kubernetes.Interface) (*Rules, error) {
	reader := collect.Reader{Client: client}
	version, err := reader.RuleVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the version of DeviceTaintRules: %w", err)
	}
	if version == "" {
		return nil, fmt.Errorf("%w: they need their API enabled, and %s; nothing was changed", ErrNotServed,
			featuregate.Words(featuregate.DeviceTaintRules, reader.Minor(ctx)))
	}
	r := &Rules{rest: client.Discovery().RESTClient(), version: version}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err == nil { // an aid only
		r.author = text.Bound(review.Status.UserInfo.Username, maxAuthor)
	}
	return r, nil
}

// Result says what a command did with a rule.
type Result struct {
	Rule string `json:"rule"`
	// Done is one of: created, changed, unchanged, removed, "removed when its finalizers are gone".
	Done string `json:"done"`
}

// Apply makes rules what they should be. It leaves a rule alone that has the effect already, unless the reason is new.
// With dryRun, the API server checks each write, and stores none.
func (r *Rules) Apply(ctx context.Context, rules []resourceapi.DeviceTaintRule, dryRun bool) ([]Result, error) {
	return each(ctx, rules, dryRun, r.apply)
}

// Remove removes rules of a drain that are still those that were read.
func (r *Rules) Remove(ctx context.Context, rules []resourceapi.DeviceTaintRule, dryRun bool) ([]Result, error) {
	return each(ctx, rules, dryRun, r.remove)
}

// each does something with rules, until one fails. Then the error says how much was done. do returns a result if it has
// asked for a write, even if that failed.
func each(ctx context.Context, rules []resourceapi.DeviceTaintRule, dryRun bool,
	do func(context.Context, *resourceapi.DeviceTaintRule, bool) (Result, error)) ([]Result, error) {
	done := []Result{}
	for i := range rules {
		result, err := do(ctx, rules[i].DeepCopy(), dryRun)
		unsure := result.Rule != "" && !dryRun && answer.Temporary(err, ruleResource, result.Rule)
		switch {
		case err == nil:
			done = append(done, result)
			continue
		case ctx.Err() != nil:
			err = errors.New("interrupted")
		case apierrors.IsForbidden(err):
			err = fmt.Errorf("%w; ask an administrator for the chart's ClusterRole of operators (accessRoles.create)", err)
		}
		switch {
		case unsure:
			return nil, fmt.Errorf("%w; the write may have happened: kubectl get devicetaintrule %s; %d of %d rules were "+
				"written before: the command can be repeated", err, result.Rule, i, len(rules))
		case dryRun || i == 0:
			return nil, fmt.Errorf("%w; nothing was changed", err)
		}
		return nil, fmt.Errorf("%w; %d of %d rules were written: the command can be repeated", err, i, len(rules))
	}
	return done, nil
}

func (r *Rules) apply(ctx context.Context, want *resourceapi.DeviceTaintRule, dryRun bool) (Result, error) {
	if r.author != "" {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, model.DrainAuthor, r.author)
	}
	is, err := r.send(ctx, http.MethodGet, want.Name, nil, false)
	if answer.Gone(err, ruleResource, want.Name) {
		return Result{want.Name, "created"}, r.write(ctx, http.MethodPost, want, dryRun)
	}
	if err != nil {
		return Result{}, fmt.Errorf("read DeviceTaintRule %s: %w", want.Name, err)
	}
	if !model.IsDrain(is) || !reflect.DeepEqual(is.Spec.DeviceSelector, want.Spec.DeviceSelector) {
		return Result{}, fmt.Errorf("write DeviceTaintRule %s: a rule of somebody else has this name, and stays as it is: "+
			"kubectl get devicetaintrule %s -o yaml", want.Name, want.Name)
	}
	reason := want.Annotations[model.DrainReason]
	if is.Spec.Taint.Effect == want.Spec.Taint.Effect && (reason == "" || reason == is.Annotations[model.DrainReason]) {
		return Result{want.Name, "unchanged"}, nil
	}
	is.Spec.Taint.Effect = want.Spec.Taint.Effect
	if is.Annotations == nil {
		is.Annotations = map[string]string{}
	}
	maps.Copy(is.Annotations, want.Annotations)
	return Result{want.Name, "changed"}, r.write(ctx, http.MethodPut, is, dryRun)
}

// write sends a rule. All versions have the same fields.
func (r *Rules) write(ctx context.Context, verb string, rule *resourceapi.DeviceTaintRule, dryRun bool) error {
	rule.TypeMeta = metav1.TypeMeta{APIVersion: resourceapi.GroupName + "/" + r.version, Kind: "DeviceTaintRule"}
	name := rule.Name
	if verb == http.MethodPost {
		name = ""
	}
	if _, err := r.send(ctx, verb, name, rule, dryRun); err != nil {
		return fmt.Errorf("write DeviceTaintRule %s: %w", rule.Name, err)
	}
	return nil
}

func (r *Rules) remove(ctx context.Context, rule *resourceapi.DeviceTaintRule, dryRun bool) (Result, error) {
	if !model.IsDrain(rule) {
		return Result{}, fmt.Errorf("remove DeviceTaintRule %s: it is not one of kubectl rdma drain", rule.Name)
	}
	options := metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &rule.UID},
	}
	if dryRun { // the API server reads no parameter of a DELETE that has a body
		options.DryRun = []string{metav1.DryRunAll}
	}
	left, err := r.send(ctx, http.MethodDelete, rule.Name, options, false)
	if left != nil && err == nil {
		return Result{rule.Name, "removed when its finalizers are gone"}, nil
	}
	if err != nil && !answer.Gone(err, ruleResource, rule.Name) {
		return Result{rule.Name, "removed"}, fmt.Errorf("remove DeviceTaintRule %s: %w", rule.Name, err)
	}
	return Result{rule.Name, "removed"}, nil
}

// send sends a request about the rule with a name, "" for a new one. It decodes the answer, whatever version it has.
// For a DELETE it returns a rule only if that has finalizers (apiserver/pkg/registry/generic/registry/store.go).
func (r *Rules) send(
	ctx context.Context, verb, name string, body any, dryRun bool,
) (*resourceapi.DeviceTaintRule, error) {
	request := r.rest.Verb(verb).AbsPath("/apis", resourceapi.GroupName, r.version, string(collect.Rules), name).
		SetHeader("Accept", "application/json")
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		request = request.SetHeader("Content-Type", "application/json").Body(data)
	}
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err // which has the API server's words, unlike the error of Raw
	}
	data, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var status metav1.Status
	if verb == http.MethodDelete && json.Unmarshal(data, &status) == nil && status.Status == metav1.StatusSuccess {
		return nil, nil
	}
	rule := &resourceapi.DeviceTaintRule{}
	if json.Unmarshal(data, rule) != nil {
		return nil, errors.New("the API server's answer is no DeviceTaintRule: is there a proxy?")
	}
	return rule, answer.About(rule, "", cmp.Or(name, rule.Name))
}
