// Package manifest reads the files that people pass to kubectl apply.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	strictjson "sigs.k8s.io/json"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
)

// Limits bound a file. Charts of operators, with their CustomResourceDefinitions, have a few megabytes.
var Limits = yamlread.Limits{Size: 8 << 20, Values: 500_000}

// Reader reads files.
type Reader struct {
	// Namespace is that of objects without one. If Only is set, an object of another namespace is an error.
	Namespace string
	Only      bool
	// Warnings has a sentence for each field that this version does not know.
	Warnings []string

	documents []*yaml.Node
	out       Manifest
}

// Read adds the objects of a file, whose documents are YAML or JSON. It takes pods, the pod templates and pod specs in
// objects of all kinds, and what pods refer to: ResourceClaims, ResourceClaimTemplates and DeviceClasses. It passes
// over all other objects.
func (r *Reader) Read(data []byte) error {
	documents, err := Limits.Documents(data)
	if err != nil {
		return err
	}
	for i, document := range documents {
		var object any
		err := document.Decode(&object)
		if err == nil {
			err = r.object(object)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	r.documents = append(r.documents, documents...)
	return nil
}

// Manifest returns what was read. A manifest without a pod is an error.
func (r *Reader) Manifest() (*Manifest, error) {
	if len(r.out.Pods) == 0 {
		return nil, errors.New("there is no pod, and no object with a pod template or containers, such as a Deployment")
	}
	return &r.out, nil
}

// header is what all objects have.
type header struct {
	metav1.TypeMeta
	Metadata struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
	} `json:"metadata"`
}

func (r *Reader) object(value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return errors.New("a key is no text")
	}
	var head header
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return fmt.Errorf("it is no object of Kubernetes: %w", plain(err))
	}
	fields, ok := value.(map[string]any)
	if !ok || head.Kind == "" || head.APIVersion == "" {
		return errors.New("it has no apiVersion or no kind")
	}
	if items, ok := fields["items"].([]any); ok && strings.HasSuffix(head.Kind, "List") {
		for i, item := range items {
			if err := r.object(item); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	name := head.Metadata.Name
	if name == "" {
		name = head.Metadata.GenerateName + "xxxxx"
	}
	label := head.Kind + "/" + name
	if err := r.typed(label, name, &head, raw, fields); err != nil {
		return fmt.Errorf("%s: %w", text.Foreign(label), err)
	}
	return nil
}

// typed adds an object of a kind that this package knows, or the pod templates in another one.
func (r *Reader) typed(label, name string, head *header, raw []byte, fields map[string]any) error {
	namespace := head.Metadata.Namespace
	switch kind := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind).GroupKind(); {
	case kind == schema.GroupKind{Kind: "Pod"}:
		var pod corev1.Pod
		if err := r.decode(label, raw, &pod); err != nil {
			return err
		}
		return r.pod(name, "", namespace, pod)
	case kind.Group != resourceapi.GroupName:
		return r.templates(label, name, namespace, "", fields)
	case head.APIVersion != resourceapi.SchemeGroupVersion.String():
		return fmt.Errorf("it has apiVersion %s, and kubectl rdma reads %s", head.APIVersion, resourceapi.SchemeGroupVersion)
	case kind.Kind == "DeviceClass":
		return add(r, label, raw, &r.out.Classes, func(*resourceapi.DeviceClass) error { return nil })
	case kind.Kind == "ResourceClaim":
		return add(r, label, raw, &r.out.Claims, func(c *resourceapi.ResourceClaim) error {
			c.Status = resourceapi.ResourceClaimStatus{}
			setClaimDefaults(&c.Spec)
			return r.place(&c.Namespace)
		})
	case kind.Kind == "ResourceClaimTemplate":
		return add(r, label, raw, &r.out.Templates, func(t *resourceapi.ResourceClaimTemplate) error {
			setClaimDefaults(&t.Spec.Spec)
			return r.place(&t.Namespace)
		})
	}
	return nil
}

// add decodes an object, finishes it and appends it to a list.
func add[T any](r *Reader, label string, raw []byte, to *[]T, finish func(*T) error) error {
	var object T
	if err := r.decode(label, raw, &object); err != nil {
		return err
	}
	if err := finish(&object); err != nil {
		return err
	}
	*to = append(*to, object)
	return nil
}

// templates adds the pods that an object describes: each mapping with a spec that has containers, and each other
// mapping that has some, which is taken for the spec itself. So it finds those of JobSets, MPIJobs and
// LLMInferenceServices, and of kinds that this package does not know.
func (r *Reader) templates(label, name, namespace, path string, value any) error {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if err := r.templates(label, name, namespace, fmt.Sprintf("%s[%d]", path, i), item); err != nil {
				return err
			}
		}
	case map[string]any:
		if spec, ok := v["spec"].(map[string]any); ok && hasContainers(spec) && path != "" {
			return r.template(label, name, namespace, path, v)
		}
		if hasContainers(v) {
			return r.bareSpec(label, name, namespace, path, v)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := r.templates(label, name, namespace, strings.TrimPrefix(path+"."+key, "."), v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasContainers(spec map[string]any) bool {
	containers, ok := spec["containers"].([]any)
	return ok && len(containers) > 0
}

// bareSpec adds a pod whose spec an object has without a template. Other fields may stand beside those of pods. What is
// no spec of a pod is passed over, and named.
func (r *Reader) bareSpec(label, name, namespace, path string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: a key is no text", path)
	}
	var spec corev1.PodSpec
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(raw, &spec); err != nil {
		r.Warnings = append(r.Warnings, text.Bound(fmt.Sprintf("%s: %s has containers, and is passed over, since it is no "+
			"spec of a pod: %v", label, path, plain(err)), text.MaxForeign))
		return nil
	}
	return r.pod(name, label+" ("+path+")", namespace, corev1.Pod{Spec: spec})
}

func (r *Reader) template(label, name, namespace, path string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: a key is no text", path)
	}
	var template corev1.PodTemplateSpec
	if err := r.decode(label+": "+path, raw, &template); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	of := label
	if !simplePath[path] {
		of += " (" + path + ")"
	}
	return r.pod(name, of, namespace, corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
}

// simplePath are the places of the only template of an object.
var simplePath = map[string]bool{"spec.template": true, "spec.jobTemplate.spec.template": true, "template": true}

// pod adds a pod with the API server's defaults.
func (r *Reader) pod(name, of, namespace string, pod corev1.Pod) error {
	pod.Name, pod.Namespace = name, namespace
	if err := r.place(&pod.Namespace); err != nil {
		return err
	}
	setPodDefaults(&pod.Spec)
	r.out.Pods = append(r.out.Pods, PlannedPod{Of: of, Pod: pod})
	return nil
}

// place sets the namespace of an object that has none.
func (r *Reader) place(namespace *string) error {
	switch {
	case *namespace == "":
		*namespace = r.Namespace
	case r.Only && *namespace != r.Namespace:
		return fmt.Errorf("it is in namespace %s, and --namespace says %s", text.Foreign(*namespace),
			text.Foreign(r.Namespace))
	}
	return nil
}

// decode decodes an object. A field that this version does not know is a warning: the API server can be newer.
func (r *Reader) decode(label string, raw []byte, into any) error {
	wrong, err := strictjson.UnmarshalStrict(raw, into)
	if err != nil {
		return plain(err)
	}
	for _, w := range wrong {
		r.Warnings = append(r.Warnings, text.Bound(fmt.Sprintf("%s: %v", label, w), text.MaxForeign))
	}
	return nil
}

// plain rewords an error of the decoder without Go types.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("%s: it cannot be a %s", wrong.Field, wrong.Value)
	}
	return err
}
