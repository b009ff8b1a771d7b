// Package collect reads the objects of a cluster from an API server.
//
// It reads and never writes: ResourceSlices, DeviceClasses, DeviceTaintRules, Nodes and
// the driver's Pods of the cluster, and ResourceClaims. To explain pods it also reads them, their
// events, claim templates and namespace. It skips a kind that the user may
// not read, and adds it to the cluster's Unread. The user must be able to read only
// the kind that the question is about.
package collect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/manifest"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Reader reads a cluster.
type Reader struct {
	Client kubernetes.Interface
	// Nodes, Claims and UserPods select the objects of these kinds to read.
	Nodes, Claims, UserPods metav1.ListOptions
	// Namespace is the namespace of the claims and of UserPods; "" reads all namespaces.
	Namespace string
	// NodeOfEvents is the node whose events NodeEvents are.
	NodeOfEvents string
	// DriverNamespace is that of the driver, "" where DeviceClasses say it.
	DriverNamespace string
}

// Kind is a kind of object that a question needs.
type Kind = model.Kind

// The kinds.
const (
	Nodes      = model.Nodes
	Pods       = model.Pods
	Slices     = model.Slices
	Claims     = model.Claims
	Classes    = model.Classes
	Rules      = model.Rules
	UserPods   = model.UserPods
	Templates  = model.Templates
	Events     = model.Events
	NodeEvents = model.NodeEvents
	EmptyNodes = model.EmptyNodes
)

// Read reads kinds of objects. The question is about the first one, so Read returns an error
// if it cannot read it. It adds other kinds that the user may not read to Unread.
func (r Reader) Read(ctx context.Context, about Kind, others ...Kind) (*model.Cluster, error) {
	c, _, err := r.readable(ctx, about, others)
	return c, err
}

// readable also returns the kinds that the user may read.
func (r Reader) readable(ctx context.Context, about Kind, others []Kind) (*model.Cluster, []Kind, error) {
	c, kinds := r.newCluster(ctx), []Kind{about}
	if err := r.read(ctx, c, about); err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", about, err)
	}
	for _, kind := range others {
		err := r.read(ctx, c, kind)
		switch {
		case err == nil:
			kinds = append(kinds, kind)
		case passable(kind, err):
			unread(c, kind, err)
		case kind == Events || kind == NodeEvents || kind == EmptyNodes: // an aid only
			unread(c, kind, fmt.Errorf("events could not be read: %w", err))
		default:
			return nil, nil, fmt.Errorf("list %s: %w", kind, err)
		}
	}
	return c, kinds, nil
}

// unread adds a kind that could not be read.
func unread(c *model.Cluster, kind Kind, err error) {
	c.Unread = append(c.Unread, model.Unread{Kind: kind, Why: err.Error()})
}

// passable reports whether an answer without a kind of object is still useful, if it says what is missing.
func passable(kind Kind, err error) bool {
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return Unreadable(err) || kind == Rules && !ended
}

// Unreadable reports whether a user may not read something, or the API server does
// not serve it.
func Unreadable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || NotServed(err)
}

// read reads a kind of object. An API server that does not serve it says so in words that name nothing.
func (r Reader) read(ctx context.Context, c *model.Cluster, kind Kind) error {
	err := r.readKind(ctx, c, kind)
	if NotServed(err) && slices.Contains([]Kind{Slices, Claims, Classes, Templates}, kind) {
		return fmt.Errorf("%w: the API server does not serve %s of resource.k8s.io/v1: this needs Kubernetes 1.34 or newer",
			err, kind)
	}
	return err
}

func (r Reader) readKind(ctx context.Context, c *model.Cluster, kind Kind) error {
	core, dra := r.Client.CoreV1(), r.Client.ResourceV1()
	switch kind {
	case Nodes:
		return list(ctx, core.Nodes().List, r.Nodes, &c.Nodes)
	case Pods:
		return list(ctx, core.Pods("").List, metav1.ListOptions{LabelSelector: model.DriverSelector}, &c.Pods)
	case UserPods:
		found := []corev1.Pod{}
		err := list(ctx, core.Pods(r.Namespace).List, r.UserPods, &found)
		if err == nil {
			c.UserPods = found // an empty list, not nil, if there are none
		}
		return err
	case Slices:
		return list(ctx, dra.ResourceSlices().List, metav1.ListOptions{}, &c.Slices)
	case Claims:
		return list(ctx, dra.ResourceClaims(r.Namespace).List, r.Claims, &c.Claims)
	case Templates:
		found := []resourceapi.ResourceClaimTemplate{}
		err := list(ctx, dra.ResourceClaimTemplates(r.Namespace).List, metav1.ListOptions{}, &found)
		if err == nil {
			c.Templates = found
		}
		return err
	case Events:
		return r.someEvents(ctx, r.Namespace, warnings, &c.Events)
	case NodeEvents:
		of := fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.kind", "Node"),
			fields.OneTermEqualSelector("involvedObject.name", r.NodeOfEvents)) // escapes the name
		return r.someEvents(ctx, metav1.NamespaceDefault, of.String(), &c.Events)
	case EmptyNodes:
		return r.someEvents(ctx, metav1.NamespaceDefault, emptyNodes, &c.Events)
	case Classes:
		return list(ctx, dra.DeviceClasses().List, metav1.ListOptions{}, &c.Classes)
	case Rules:
		return r.rules(ctx, c)
	}
	return nil
}

// list reads a list page by page into out. If paging took too long, it reads the list again at once.
func list[L interface {
	runtime.Object
	metav1.ListInterface
}, T any](
	ctx context.Context, read func(context.Context, metav1.ListOptions) (L, error), o metav1.ListOptions, out *[]T,
) error {
	page := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return answer.Listed(read(ctx, o))
	}
	all, _, err := pager.New(page).List(ctx, o)
	if err != nil {
		return err
	}
	return meta.EachListItem(all, func(item runtime.Object) error {
		*out = append(*out, *any(item).(*T))
		return nil
	})
}

// Pod reads a pod and the objects that explain it. The error is about the pod itself.
func (r Reader) Pod(ctx context.Context, namespace, name string) (*model.Cluster, why.Question, error) {
	pod, err := r.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = answer.About(pod, namespace, name)
	}
	if err != nil {
		return nil, why.Question{}, err
	}
	c, err := r.scheduler(ctx, namespace)
	if err != nil {
		return nil, why.Question{}, err
	}
	q := why.Question{Pod: *pod, Templates: map[string]bool{}}
	if err := r.events(ctx, &q, c); err != nil {
		unread(c, Events, fmt.Errorf("events could not be read: %w", err))
	}
	if err := r.templates(ctx, &q); err != nil {
		unread(c, Templates, err)
	}
	if err := r.labels(ctx, &q, c.Claims); err != nil {
		unread(c, model.Namespace, err)
	}
	return c, q, nil
}

// scheduler reads what the scheduler looks at for a pod of a namespace.
func (r Reader) scheduler(ctx context.Context, namespace string) (*model.Cluster, error) {
	c := r.newCluster(ctx)
	for _, kind := range []Kind{Slices, Classes, Rules, Claims, Nodes, Pods} {
		if err := r.read(ctx, c, kind); err != nil {
			if !passable(kind, err) || kind == Slices && NotServed(err) { // then none of resource.k8s.io is
				return nil, fmt.Errorf("list %s: %w", kind, err)
			}
			unread(c, kind, err)
			if kind == Claims { // other claims are useful, but the pod's own are necessary
				own := r
				own.Namespace = namespace
				if err := own.read(ctx, c, Claims); err != nil {
					unread(c, model.OwnClaims, err)
				}
			}
		}
	}
	return c, nil
}

// newCluster returns a cluster without objects. It asks the API server for its version.
func (r Reader) newCluster(ctx context.Context) *model.Cluster {
	return &model.Cluster{Now: time.Now(), DriverNamespace: r.DriverNamespace, Minor: r.Minor(ctx)}
}

// Minor returns the minor version of the API server's Kubernetes, 0 if it does not say.
func (r Reader) Minor(ctx context.Context) int {
	info, err := discovery.ToServerVersionInterfaceWithContext(r.Client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return 0
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return 0
	}
	return int(v.Minor())
}

// Planned reads what the scheduler would look at for the pods of a manifest, and makes a question of each.
func (r Reader) Planned(ctx context.Context, m *manifest.Manifest) (*model.Cluster, []why.Question, error) {
	c, err := r.scheduler(ctx, m.Pods[0].Pod.Namespace)
	if err != nil {
		return nil, nil, err
	}
	m.AddTo(c)
	var out []why.Question
	for i := range m.Pods {
		p := &m.Pods[i]
		templates := map[string]*resourceapi.ResourceClaimTemplate{}
		for _, name := range m.TemplatesBeside(p) {
			found, err := r.template(ctx, p.Pod.Namespace, name)
			if err != nil {
				return nil, nil, fmt.Errorf("get ResourceClaimTemplate %s/%s, which the file lacks: %w", p.Pod.Namespace, name, err)
			}
			templates[name] = found
		}
		q := m.Question(p, templates)
		if err := r.labels(ctx, &q, slices.Concat(c.Claims, q.Planned.Claims)); err != nil {
			unread(c, model.Namespace, err)
		}
		out = append(out, q)
	}
	return c, out, nil
}

// template returns a template, nil if it does not exist.
func (r Reader) template(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaimTemplate, error) {
	found, err := r.Client.ResourceV1().ResourceClaimTemplates(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && answer.Gone(err, resourceapi.Resource("resourceclaimtemplates"), name) {
		return nil, nil
	}
	if err == nil {
		err = answer.About(found, namespace, name)
	}
	return found, err
}

// events reads the events of the pod and of its claims, oldest first.
func (r Reader) events(ctx context.Context, q *why.Question, c *model.Cluster) error {
	uids := []string{string(q.Pod.UID)}
	for _, claim := range c.Claims {
		mine := func(o metav1.OwnerReference) bool { return o.UID == q.Pod.UID }
		if claim.Namespace == q.Pod.Namespace && slices.ContainsFunc(claim.OwnerReferences, mine) {
			uids = append(uids, string(claim.UID))
		}
	}
	for _, uid := range uids {
		if err := r.someEvents(ctx, q.Pod.Namespace, "involvedObject.uid="+uid, &q.Events); err != nil {
			return err
		}
	}
	model.SortEvents(q.Events)
	return nil
}

// warnings selects the events that explain pods.
const warnings = "type=Warning,involvedObject.kind=Pod"

// emptyNodes selects the events of [EmptyNodes].
const emptyNodes = "reason=" + model.NothingPublished + ",source=" + rdma.Domain

// maxEvents bounds the events of one question: whoever may create events in a namespace can create any number.
const maxEvents = 10_000

// someEvents reads events page by page into out. It returns an error if there are more than maxEvents.
func (r Reader) someEvents(ctx context.Context, namespace, selector string, out *[]corev1.Event) error {
	o := metav1.ListOptions{FieldSelector: selector, Limit: 500}
	for {
		page, err := answer.Listed(r.Client.CoreV1().Events(namespace).List(ctx, o))
		if err != nil {
			return err
		}
		*out = append(*out, page.Items...)
		if o.Continue = page.Continue; o.Continue == "" {
			return nil
		}
		if len(*out) >= maxEvents {
			return fmt.Errorf("there are more than %d", maxEvents)
		}
	}
}

// DriverEvents reads the events that drivers of all nodes have told, in all namespaces.
func (r Reader) DriverEvents(ctx context.Context) (out []corev1.Event, err error) {
	err = r.someEvents(ctx, metav1.NamespaceAll, "source="+rdma.Domain, &out)
	return out, err
}

// templates reads the templates that the pod names and for which it has no claim yet.
func (r Reader) templates(ctx context.Context, q *why.Question) error {
	for _, ref := range q.Pod.Spec.ResourceClaims {
		named := func(s corev1.PodResourceClaimStatus) bool { return s.Name == ref.Name }
		made := slices.ContainsFunc(q.Pod.Status.ResourceClaimStatuses, named)
		if ref.ResourceClaimTemplateName == nil || made {
			continue
		}
		name := *ref.ResourceClaimTemplateName
		found, err := r.template(ctx, q.Pod.Namespace, name)
		if err != nil {
			return err
		}
		q.Templates[name] = found != nil
	}
	return nil
}

// labels reads the labels of the namespace if a claim needs one for an administrator's
// access.
func (r Reader) labels(ctx context.Context, q *why.Question, claims []resourceapi.ResourceClaim) error {
	admin := func(r resourceapi.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	}
	if !slices.ContainsFunc(claims, func(claim resourceapi.ResourceClaim) bool {
		return claim.Namespace == q.Pod.Namespace && slices.ContainsFunc(claim.Spec.Devices.Requests, admin)
	}) {
		return nil
	}
	ns, err := r.Client.CoreV1().Namespaces().Get(ctx, q.Pod.Namespace, metav1.GetOptions{})
	if err == nil {
		err = answer.About(ns, "", q.Pod.Namespace)
	}
	if err != nil {
		return err
	}
	q.NamespaceLabels = ns.Labels
	if q.NamespaceLabels == nil {
		q.NamespaceLabels = map[string]string{}
	}
	return nil
}

// NotServed reports whether the API server does not serve a kind of object at all. A proxy in front of it can answer the
// same, so it is a hint for people and nothing more.
func NotServed(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != http.StatusNotFound {
		return false
	}
	// A list error without a name is about the kind.
	details := status.Status().Details
	return details == nil || details.Name == ""
}
