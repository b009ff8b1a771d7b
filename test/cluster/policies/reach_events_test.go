package policies

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

type changeEvent = func(*corev1.Event)

// ownEvent is one about a claim as the driver of nodeA writes it, changed.
func ownEvent(changes ...changeEvent) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: team, Name: "own.1"},
		InvolvedObject:      corev1.ObjectReference{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim", Namespace: team, Name: "own", UID: "1"},
		Source:              corev1.EventSource{Component: driverName, Host: nodeA},
		ReportingController: driverName, ReportingInstance: nodeA,
		Reason: "Prepared", Message: "m", Type: corev1.EventTypeNormal, Count: 1,
	}
	for _, change := range changes {
		change(e)
	}
	return e
}

// about makes the event one about another object.
func about(kind, name string) changeEvent {
	return func(e *corev1.Event) {
		e.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(name)}
		if e.Name = name + ".1"; kind != "Node" {
			e.InvolvedObject.Namespace = team
			return
		}
		e.Namespace = metav1.NamespaceDefault
	}
}

func createEvent(changes ...changeEvent) func(context.Context, kubernetes.Interface) error {
	e := ownEvent(changes...)
	return func(ctx context.Context, as kubernetes.Interface) error {
		_, err := as.CoreV1().Events(e.Namespace).Create(ctx, e, dryCreate)
		return err
	}
}

const ownEvents = "may write events of its own only"

// newEvents are attempts to create events.
func (r *reach) newEvents() []attempt {
	create := func(name, want string, changes ...changeEvent) attempt {
		return attempt{"create one " + name, nil, createEvent(changes...), want}
	}
	return []attempt{
		create("about a claim", ""),
		create("about a pod", "", about("Pod", "p")),
		create("about its node", "", about("Node", nodeA)),
		create("without a reporter", "", func(e *corev1.Event) { e.ReportingController, e.ReportingInstance = "", "" }),
		create("of the kubelet", ownEvents, func(e *corev1.Event) { e.Source.Component = "kubelet" }),
		create("of another node", ownEvents, func(e *corev1.Event) { e.Source.Host = nodeB }),
		create("of nobody", ownEvents, func(e *corev1.Event) { e.Source = corev1.EventSource{} }),
		create("reported by the kubelet", ownEvents, func(e *corev1.Event) { e.ReportingController = "kubelet" }),
		create("reported by another node", ownEvents, func(e *corev1.Event) { e.ReportingInstance = nodeB }),
		create("about a secret", "about nodes, claims and pods only", about("Secret", "s")),
		create("about another node", "about its own node only", about("Node", nodeB)),
		create("about nothing", "about nodes, claims and pods only", func(e *corev1.Event) { e.InvolvedObject = corev1.ObjectReference{Namespace: team} }),
		create("with a related object", "related", func(e *corev1.Event) { e.Related = &corev1.ObjectReference{Kind: "Node", Name: nodeB} }),
		create("with a finalizer", "finalizers", func(e *corev1.Event) { e.Finalizers = []string{"example.com/keep"} }),
		create("with an owner", "owners", func(e *corev1.Event) {
			e.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1", BlockOwnerDeletion: new(true)}}
		}),
		{"create one by a token without a pod", r.loose, createEvent(), "names no node"},
		{"create one of another node by the driver in another namespace", r.moved, createEvent(func(e *corev1.Event) { e.Source.Host = nodeB }), ownEvents},
	}
}

// oldEvents are attempts on events that there are.
func (r *reach) oldEvents(t *testing.T) []attempt {
	t.Helper()
	for name, changes := range map[string][]changeEvent{
		"stored.1": {}, "kubelet.1": {func(e *corev1.Event) { e.Source.Component = "kubelet" }}, "other.1": {func(e *corev1.Event) { e.Source.Host = nodeB }},
	} {
		e := ownEvent(changes...)
		e.Name = name
		_, err := r.admin.CoreV1().Events(team).Create(t.Context(), e, metav1.CreateOptions{})
		must(t, err)
	}
	patch := func(name, event, body, want string) attempt {
		return attempt{"patch " + name, nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.CoreV1().Events(team).Patch(ctx, event, types.StrategicMergePatchType, []byte(body), dryPatch)
			return err
		}, want}
	}
	const own = `{"source": {"component": "rdma.dev", "host": "node-a"}}`
	return []attempt{
		patch("its own", "stored.1", `{"count": 2, "message": "again"}`, ""),
		patch("one of the kubelet", "kubelet.1", `{"count": 2}`, ownEvents),
		patch("one of another node", "other.1", `{"count": 2}`, ownEvents),
		patch("one of another node to its own", "other.1", own, ownEvents),
		patch("its own to another node's", "stored.1", `{"source": {"host": "node-b"}}`, ownEvents),
		patch("its own, reported by another node", "stored.1", `{"reportingInstance": "node-b"}`, ownEvents),
		patch("its own to be about a secret", "stored.1", `{"involvedObject": {"kind": "Secret"}}`, "about nodes, claims and pods only"),
		patch("its own to have a finalizer", "stored.1", `{"metadata": {"finalizers": ["example.com/keep"]}}`, "finalizers"),
		{"update its own", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.CoreV1().Events(team).Update(ctx, ownEvent(func(e *corev1.Event) { e.Name = "stored.1" }), dryUpdate)
			return err
		}, "cannot update"},
		{"delete its own", nil, func(ctx context.Context, as kubernetes.Interface) error {
			return as.CoreV1().Events(team).Delete(ctx, "stored.1", dryDelete)
		}, "cannot delete"},
	}
}
