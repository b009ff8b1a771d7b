package collect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// ruleVersions are the versions with DeviceTaintRules, the preferred one first. Kubernetes 1.37 serves v1. An
// administrator can switch on v1beta2 in 1.36, and v1alpha3 in 1.34 and 1.35.
var ruleVersions = []string{"v1", "v1beta2", "v1alpha3"}

const groupPath = "/apis/" + resourceapi.GroupName

// rules reads the DeviceTaintRules. An API server that does not serve them has none. Everything else that keeps the
// rules from being read is an error: a rule may then keep devices away.
func (r Reader) rules(ctx context.Context, c *model.Cluster) error {
	version, err := r.RuleVersion(ctx)
	if err != nil {
		return unknownRules(err)
	}
	if version == "" {
		return nil
	}
	// A typed client drops the fields that it does not know, and then a selector selects more devices than it should.
	var list struct {
		metav1.TypeMeta
		Items []rawRule
	}
	path := groupPath + "/" + version + "/" + string(Rules)
	if err := r.get(ctx, path, "DeviceTaintRuleList", &list.TypeMeta, &list); err != nil {
		return unknownRules(err)
	}
	var unknown []string
	for _, raw := range list.Items {
		rule, err := raw.rule()
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("%s (%v)", raw.Metadata.Name, err))
			continue
		}
		c.Rules = append(c.Rules, rule)
	}
	if n := len(unknown); n > 0 {
		text := strings.Join(unknown[:min(n, 3)], ", ")
		err := unknownRules(fmt.Errorf("this program does not understand %d of %d: %s", n, len(list.Items), text))
		unread(c, Rules, err)
	}
	return nil
}

func unknownRules(err error) error {
	return fmt.Errorf("cannot read DeviceTaintRules: %w; a rule may keep devices away", err)
}

// RuleVersion returns the preferred version in which the API server serves DeviceTaintRules, "" if it serves none. Only
// the API server's own lists say so: an answer "not found" may be that of something in front of it.
func (r Reader) RuleVersion(ctx context.Context) (string, error) {
	var group metav1.APIGroup
	if err := r.get(ctx, groupPath, "APIGroup", &group.TypeMeta, &group); err != nil {
		return "", err
	}
	for _, version := range ruleVersions {
		isVersion := func(v metav1.GroupVersionForDiscovery) bool { return v.Version == version }
		if !slices.ContainsFunc(group.Versions, isVersion) {
			continue
		}
		var list metav1.APIResourceList
		if err := r.get(ctx, groupPath+"/"+version, "APIResourceList", &list.TypeMeta, &list); err != nil {
			return "", err
		}
		if slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == string(Rules) }) {
			return version, nil
		}
	}
	return "", nil
}

// get reads a JSON object of a certain kind.
func (r Reader) get(ctx context.Context, path, kind string, is *metav1.TypeMeta, into any) error {
	result := r.Client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return fmt.Errorf("read %s from the API server: %w", path, err)
	}
	if json.Unmarshal(data, into) != nil || is.Kind != kind {
		return fmt.Errorf("read %s from the API server: it answers with the kind %q, and not %s: is there a proxy?",
			path, is.Kind, kind)
	}
	return nil
}

// rawRule is a DeviceTaintRule of any version. They differ in the fields of the selector only.
type rawRule struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     json.RawMessage   `json:"spec"`
}

// rule converts to v1. An unknown field is an error, since it may be a condition of the selector. In Kubernetes 1.34 a
// selector may name a DeviceClass or have expressions.
func (raw rawRule) rule() (resourceapi.DeviceTaintRule, error) {
	out := resourceapi.DeviceTaintRule{ObjectMeta: raw.Metadata}
	d := json.NewDecoder(bytes.NewReader(raw.Spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&out.Spec); err != nil {
		return out, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return out, nil
}

// watchRules returns what an informer for the rules needs, nil if the API server does not serve rules.
func (r Reader) watchRules(ctx context.Context) (*cache.ListWatch, runtime.Object, error) {
	version, err := r.RuleVersion(ctx)
	if err != nil {
		return nil, nil, unknownRules(err)
	}
	switch version {
	case "v1":
		return listWatch(r.Client.ResourceV1().RESTClient(), Rules, "", metav1.ListOptions{}),
			&resourceapi.DeviceTaintRule{}, nil
	case "v1beta2":
		return listWatch(r.Client.ResourceV1beta2().RESTClient(), Rules, "", metav1.ListOptions{}),
			&resourcev1beta2.DeviceTaintRule{}, nil
	case "v1alpha3":
		return listWatch(r.Client.ResourceV1alpha3().RESTClient(), Rules, "", metav1.ListOptions{}),
			&resourcev1alpha3.DeviceTaintRule{}, nil
	}
	return nil, nil, nil
}

// rulesOf converts watched rules of any version to v1, by name.
func rulesOf(objects []any) (out []resourceapi.DeviceTaintRule) {
	for _, o := range objects {
		rule := resourceapi.DeviceTaintRule{}
		if data, err := json.Marshal(o); err != nil || json.Unmarshal(data, &rule) != nil {
			continue // not possible: the versions have the same fields
		}
		out = append(out, rule)
	}
	slices.SortFunc(out, func(a, b resourceapi.DeviceTaintRule) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
