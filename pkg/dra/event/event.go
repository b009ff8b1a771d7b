// Package event has the events of the driver as values: what people should know about a node or a claim. The reasons
// are stable, because people and programs search for them. Package report writes events.
package event

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Event is something that people should know about the node or a claim.
type Event struct {
	Namespace, Claim string // empty for the node
	UID              types.UID
	Reason           Reason
	Message          string             // empty where there is a transition
	Transition       *health.Transition // merged with others of its reason
	Pods             bool               // the pods of the claim get the event too
	Pod              types.UID          // only this pod of the claim; empty for all
	PodName          string             // of Pod; empty if the API server has to be asked
	Start            bool               // the start of a container is the cause
	Fault            string             // what all pods of a workload have in common, empty for a fault of one pod
}

// OfClaim returns an event of a claim and its pods.
func OfClaim(p *plan.Plan, reason Reason, message string) Event {
	return Event{Namespace: p.Namespace, Claim: p.Name, UID: p.UID, Reason: reason, Message: message, Pods: true}
}

// OfPod returns an event of a claim and one of its pods.
func OfPod(p *plan.Plan, name string, uid types.UID, reason Reason, message string) Event {
	e := OfClaim(p, reason, message)
	e.Pod, e.PodName = uid, name
	return e
}

// Object returns the object of the event: the claim, or the node.
func (e *Event) Object(node string) corev1.ObjectReference {
	if e.Claim == "" {
		// As the kubelet does, the UID is the name of the node: kubectl describe looks for both.
		return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	}
	return corev1.ObjectReference{
		APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim",
		Namespace: e.Namespace, Name: e.Claim, UID: e.UID,
	}
}

// PodReference returns a reference to a pod.
func PodReference(namespace, name string, uid types.UID) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: uid}
}
