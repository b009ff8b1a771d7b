// Package collect reads from an API server what package inspect answers from.
//
// It reads and never writes: ResourceSlices, DeviceClasses, Nodes and the driver's
// Pods of the cluster, and ResourceClaims. To explain a pod it also reads that pod,
// its events, and the claim templates and the namespace that it names. Each kind
// that a user may not read is left out and noted in the cluster's Unread; only what a
// question is about has to be readable.
package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/pkg/inspect"
)

// chunk is how many objects one request returns, as kubectl has it.
const chunk = 500

// Reader reads a cluster.
type Reader struct {
	Client kubernetes.Interface
	// Nodes and Claims narrow what is read of these, with their selectors.
	Nodes, Claims metav1.ListOptions
	// Namespace is that of the claims; "" reads all namespaces.
	Namespace string
}

// Kind is a kind of object that a question needs.
type Kind string

// The kinds.
const (
	Nodes   Kind = "nodes"
	Pods    Kind = "pods"
	Slices  Kind = "resourceslices"
	Claims  Kind = "resourceclaims"
	Classes Kind = "deviceclasses"
)

// Read reads kinds of objects. The first one is what the question is about: an error
// to read it is returned. Others that cannot be read are noted.
func (r Reader) Read(ctx context.Context, about Kind, others ...Kind) (*inspect.Cluster, error) {
	c := &inspect.Cluster{}
	if err := r.read(ctx, c, about); err != nil {
		return nil, fmt.Errorf("list %s: %w", about, err)
	}
	for _, kind := range others {
		if err := r.read(ctx, c, kind); err != nil {
			if !Unreadable(err) {
				return nil, fmt.Errorf("list %s: %w", kind, err)
			}
			c.Unread = append(c.Unread, err.Error())
		}
	}
	return c, nil
}

// Unreadable reports whether a user may not read something, or the API server does
// not serve it.
func Unreadable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

func (r Reader) read(ctx context.Context, c *inspect.Cluster, kind Kind) (err error) {
	core, dra := r.Client.CoreV1(), r.Client.ResourceV1()
	switch kind {
	case Nodes:
		c.Nodes, err = pages(r.Nodes, func(o metav1.ListOptions) ([]corev1.Node, string, error) {
			l, err := core.Nodes().List(ctx, o)
			return items(l, err, func() []corev1.Node { return l.Items })
		})
	case Pods:
		c.Pods, err = pages(metav1.ListOptions{LabelSelector: inspect.DriverSelector}, func(o metav1.ListOptions) ([]corev1.Pod, string, error) {
			l, err := core.Pods(metav1.NamespaceAll).List(ctx, o)
			return items(l, err, func() []corev1.Pod { return l.Items })
		})
	case Slices:
		c.Slices, err = pages(metav1.ListOptions{}, func(o metav1.ListOptions) ([]resourceapi.ResourceSlice, string, error) {
			l, err := dra.ResourceSlices().List(ctx, o)
			return items(l, err, func() []resourceapi.ResourceSlice { return l.Items })
		})
	case Claims:
		c.Claims, err = pages(r.Claims, func(o metav1.ListOptions) ([]resourceapi.ResourceClaim, string, error) {
			l, err := dra.ResourceClaims(r.Namespace).List(ctx, o)
			return items(l, err, func() []resourceapi.ResourceClaim { return l.Items })
		})
	case Classes:
		c.Classes, err = pages(metav1.ListOptions{}, func(o metav1.ListOptions) ([]resourceapi.DeviceClass, string, error) {
			l, err := dra.DeviceClasses().List(ctx, o)
			return items(l, err, func() []resourceapi.DeviceClass { return l.Items })
		})
	}
	return err
}

// items takes a list apart. A list that could not be read is nil.
func items[T any](list metav1.ListInterface, err error, get func() []T) ([]T, string, error) {
	if err != nil {
		return nil, "", err
	}
	return get(), list.GetContinue(), nil
}

// pages reads a list chunk by chunk. A list that took too long to page through is
// read again at once.
func pages[T any](o metav1.ListOptions, list func(metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	var out []T
	o.Limit = chunk
	for {
		page, next, err := list(o)
		if apierrors.IsResourceExpired(err) && o.Continue != "" {
			o.Limit, o.Continue, out = 0, "", nil
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if next == "" {
			return out, nil
		}
		o.Continue = next
	}
}

// Pod reads a pod and what explains it. The error is about the pod itself.
func (r Reader) Pod(ctx context.Context, namespace, name string) (*inspect.Cluster, inspect.Question, error) {
	pod, err := r.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, inspect.Question{}, err
	}
	c := &inspect.Cluster{}
	for _, kind := range []Kind{Slices, Classes, Claims, Nodes, Pods} {
		if err := r.read(ctx, c, kind); err != nil {
			if !Unreadable(err) {
				return nil, inspect.Question{}, fmt.Errorf("list %s: %w", kind, err)
			}
			c.Unread = append(c.Unread, err.Error())
			if kind == Claims { // those beside the pod's are only of use, its own are needed
				own := r
				own.Namespace = namespace
				if err := own.read(ctx, c, Claims); err != nil {
					c.Unread = append(c.Unread, err.Error())
				}
			}
		}
	}
	q := inspect.Question{Pod: *pod, Templates: map[string]bool{}}
	for _, err := range []error{r.events(ctx, &q, c), r.templates(ctx, &q), r.labels(ctx, &q, c)} {
		if err != nil {
			c.Unread = append(c.Unread, err.Error())
		}
	}
	return c, q, nil
}

// events reads the events of the pod and of its claims, oldest first.
func (r Reader) events(ctx context.Context, q *inspect.Question, c *inspect.Cluster) error {
	events := r.Client.CoreV1().Events(q.Pod.Namespace)
	uids := []string{string(q.Pod.UID)}
	for _, claim := range c.Claims {
		if claim.Namespace == q.Pod.Namespace && slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == q.Pod.UID }) {
			uids = append(uids, string(claim.UID))
		}
	}
	for _, uid := range uids {
		list, err := events.List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + uid})
		if err != nil {
			return err
		}
		q.Events = append(q.Events, list.Items...)
	}
	slices.SortStableFunc(q.Events, func(a, b corev1.Event) int { return when(a).Compare(when(b)) })
	return nil
}

// when is the last time of an event, in whichever of its fields that is.
func when(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// templates looks for the templates that the pod names and for which it has no claim yet.
func (r Reader) templates(ctx context.Context, q *inspect.Question) error {
	for _, ref := range q.Pod.Spec.ResourceClaims {
		made := slices.ContainsFunc(q.Pod.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == ref.Name })
		if ref.ResourceClaimTemplateName == nil || made {
			continue
		}
		name := *ref.ResourceClaimTemplateName
		_, err := r.Client.ResourceV1().ResourceClaimTemplates(q.Pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		q.Templates[name] = err == nil
	}
	return nil
}

// labels reads those of the namespace, where a claim needs one for administrator's
// access.
func (r Reader) labels(ctx context.Context, q *inspect.Question, c *inspect.Cluster) error {
	if !slices.ContainsFunc(c.Claims, func(claim resourceapi.ResourceClaim) bool {
		return claim.Namespace == q.Pod.Namespace && slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
			return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
		})
	}) {
		return nil
	}
	ns, err := r.Client.CoreV1().Namespaces().Get(ctx, q.Pod.Namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	q.NamespaceLabels = ns.Labels
	if q.NamespaceLabels == nil {
		q.NamespaceLabels = map[string]string{}
	}
	return nil
}

// NotServed reports whether the API server does not serve a kind of object at all.
func NotServed(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	// A list cannot be of an object that is not there.
	details := status.Status().Details
	return details == nil || details.Name == ""
}
