package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// ErrNotServed says that the API server has no DeviceTaintRules.
var ErrNotServed = errors.New("the API server serves no DeviceTaintRules: they need Kubernetes 1.37, or an older one " +
	"with the feature gate DRADeviceTaintRules and the API enabled; nothing was changed")

var ruleResource = resourceapi.Resource(string(collect.Rules))

// Rules writes DeviceTaintRules in the version that the API server serves.
type Rules struct {
	rest    rest.Interface
	version string
	// DryRun has the API server check each write, and store none.
	DryRun bool
}

// Open finds the version. It returns ErrNotServed if there is none.
func Open(ctx context.Context, client kubernetes.Interface) (*Rules, error) {
	version, err := collect.Reader{Client: client}.RuleVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the version of DeviceTaintRules: %w", err)
	}
	if version == "" {
		return nil, ErrNotServed
	}
	return &Rules{rest: client.Discovery().RESTClient(), version: version}, nil
}

// Result says what a command did with a rule.
type Result struct {
	Rule string `json:"rule"`
	// Done is one of: created, changed, unchanged, removed.
	Done string `json:"done"`
}

// Apply makes a rule what it should be. It leaves a rule alone that has the effect already, unless the reason is new.
func (r *Rules) Apply(ctx context.Context, want resourceapi.DeviceTaintRule) (Result, error) {
	is, err := r.get(ctx, want.Name)
	if answer.Gone(err, ruleResource, want.Name) {
		return Result{want.Name, "created"}, r.write(ctx, r.rest.Post(), "", &want)
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
	return Result{want.Name, "changed"}, r.write(ctx, r.rest.Put(), is.Name, is)
}

// Remove removes a rule of a drain, if it is still the one that was read.
func (r *Rules) Remove(ctx context.Context, rule *resourceapi.DeviceTaintRule) (Result, error) {
	if !model.IsDrain(rule) && rule.Labels[model.DrainPreview] == "" {
		return Result{}, fmt.Errorf("remove DeviceTaintRule %s: it is not one of kubectl rdma drain", rule.Name)
	}
	o := metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &rule.UID},
	}
	if r.DryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(o)
	if err != nil {
		return Result{}, err
	}
	request := r.rest.Delete().AbsPath(r.path(rule.Name)).SetHeader("Content-Type", "application/json").Body(body)
	err = request.Do(ctx).Error()
	if err != nil && !answer.Gone(err, ruleResource, rule.Name) {
		return Result{}, fmt.Errorf("remove DeviceTaintRule %s: %w", rule.Name, err)
	}
	return Result{rule.Name, "removed"}, nil
}

func (r *Rules) path(name string) string {
	path := "/apis/" + resourceapi.GroupName + "/" + r.version + "/" + string(collect.Rules)
	if name != "" {
		path += "/" + name
	}
	return path
}

func (r *Rules) get(ctx context.Context, name string) (*resourceapi.DeviceTaintRule, error) {
	rule := &resourceapi.DeviceTaintRule{}
	request := r.rest.Get().AbsPath(r.path(name)).SetHeader("Accept", "application/json")
	return rule, decode(request.Do(ctx), rule)
}

// decode decodes an answer as JSON, whatever version it has.
func decode(result rest.Result, into any) error {
	if err := result.Error(); err != nil { // which has the API server's words, unlike the error of Raw
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// write sends a rule. All versions have the same fields.
func (r *Rules) write(ctx context.Context, verb *rest.Request, name string, rule *resourceapi.DeviceTaintRule) error {
	sent := rule.DeepCopy()
	sent.TypeMeta = metav1.TypeMeta{APIVersion: resourceapi.GroupName + "/" + r.version, Kind: "DeviceTaintRule"}
	body, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	verb = verb.AbsPath(r.path(name)).SetHeader("Content-Type", "application/json").Body(body)
	if r.DryRun {
		verb = verb.Param("dryRun", metav1.DryRunAll)
	}
	var written struct{ Metadata struct{ UID types.UID } }
	if err := decode(verb.Do(ctx), &written); err != nil {
		return fmt.Errorf("write DeviceTaintRule %s: %w", rule.Name, err)
	}
	rule.UID = written.Metadata.UID
	return nil
}
