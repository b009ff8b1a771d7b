package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/phrase"
)

// Pod is a pod with claims for RDMA devices.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Job is the workload that the pod is a part of, as TYPE/NAME: "job/llm". It is empty for a pod without a controller.
	Job string `json:"job,omitempty"`
	// Status is the pod's phase, or Terminating; empty if the user may not read pods.
	Status string `json:"status,omitempty"`
	Node   string `json:"node,omitempty"`
	// Claims are the names of its claims. Devices are those of this driver that are allocated
	// to them; IBDevs are the kernel's names of these.
	Claims    []string `json:"claims"`
	Devices   []string `json:"devices,omitempty"`
	IBDevs    []string `json:"ibdevs,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Problems are what is wrong with its devices, or keeps it from starting.
	Problems []string `json:"problems,omitempty"`
}

// jobLabels are labels of pods. Controllers set them if a workload consists of several objects. Otherwise the pod's
// controller is the workload.
//
//   - https://jobset.sigs.k8s.io/docs/reference/labels-and-annotations/
//   - https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/
var jobLabels = []struct{ label, kind string }{
	{"jobset.sigs.k8s.io/jobset-name", "jobset"},
	{"leaderworkerset.sigs.k8s.io/name", "leaderworkerset"},
}

func jobOf(pod *corev1.Pod) string {
	for _, j := range jobLabels {
		if name := pod.Labels[j.label]; name != "" {
			return j.kind + "/" + name
		}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return ""
}

// ListPods returns the pods that have not ended and have claims for devices of this driver, by job. Jobs and pods with
// problems come first. If UserPods is nil, the pods are those for which claims are reserved.
func (c *Cluster) ListPods(ctx context.Context) []Pod {
	v := c.view()
	active := map[types.NamespacedName]*corev1.Pod{}
	for i := range c.UserPods {
		if p := &c.UserPods[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			active[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
		}
	}
	var out []Pod
	for name, claims := range v.claimsOfPods(ctx, active) {
		pod := Pod{Namespace: name.Namespace, Name: name.Name, Claims: []string{}}
		for _, claim := range claims {
			v.addClaim(&pod, claim)
		}
		if p := active[name]; p != nil {
			pod.describe(p)
		}
		out = append(out, pod)
	}
	sortByJob(out)
	return out
}

// claimsOfPods returns the claims for RDMA devices of each active pod, in the order of the pod's spec. Claims that the
// pod does not name follow: those for extended resources.
func (v *view) claimsOfPods(ctx context.Context, active map[types.NamespacedName]*corev1.Pod) (
	out map[types.NamespacedName][]*resourceapi.ResourceClaim) {
	rdma := v.classesOfDriver(ctx)
	byName := map[types.NamespacedName]*resourceapi.ResourceClaim{}
	for i := range v.Claims {
		if claim := &v.Claims[i]; concerns(claim, rdma) {
			byName[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim
		}
	}
	out = map[types.NamespacedName][]*resourceapi.ResourceClaim{}
	for name, pod := range active {
		for i := range pod.Spec.ResourceClaims {
			claim, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
			if err != nil || claim == nil {
				continue // no claim has been made of the template, or the pod needs none
			}
			if c := byName[types.NamespacedName{Namespace: pod.Namespace, Name: *claim}]; c != nil {
				out[name] = appendNew(out[name], c)
			}
		}
	}
	for i := range v.Claims {
		claim := &v.Claims[i]
		if byName[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] == nil {
			continue
		}
		for _, user := range podsOf(claim) {
			name := types.NamespacedName{Namespace: claim.Namespace, Name: user}
			if v.UserPods == nil || active[name] != nil {
				out[name] = appendNew(out[name], claim)
			}
		}
	}
	return out
}

func (v *view) addClaim(pod *Pod, claim *resourceapi.ResourceClaim) {
	pod.Claims = append(pod.Claims, claim.Name)
	for _, r := range resultsOf(claim) {
		if r.Driver == driver {
			pod.Devices = appendNew(pod.Devices, deviceName(structured.MakeDeviceID(r.Driver, r.Pool, r.Device)))
		}
	}
	pod.IBDevs = append(pod.IBDevs, v.ibdevsOf(claim)...)
	pod.Addresses = append(pod.Addresses, addressesOf(claim)...)
	pod.Node = cmp.Or(pod.Node, claimNode(claim))
	if claim.Status.Allocation == nil {
		pod.Problems = append(pod.Problems, fmt.Sprintf("claim %s has no devices: kubectl rdma why %s", claim.Name, pod.Name))
	}
	for _, f := range v.faults(claim) {
		pod.Problems = append(pod.Problems, f.Message)
	}
}

// describe adds what the pod itself says.
func (p *Pod) describe(pod *corev1.Pod) {
	p.Job, p.Status, p.Node = jobOf(pod), phase(pod), cmp.Or(pod.Spec.NodeName, p.Node)
	for _, f := range waitingContainers(pod) {
		p.Problems = append(p.Problems, f.Message)
	}
}

// job identifies the job of a pod. A pod without one is its own.
func (p *Pod) job() string { return p.Namespace + "/" + cmp.Or(p.Job, p.Name) }

// sortByJob sorts by job. What has problems comes first.
func sortByJob(pods []Pod) {
	unwell := map[string]int{}
	for i := range pods {
		unwell[pods[i].job()] = max(unwell[pods[i].job()], len(pods[i].Problems))
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(
			first(unwell[a.job()] > 0, unwell[b.job()] > 0), cmp.Compare(a.job(), b.job()),
			first(len(a.Problems) > 0, len(b.Problems) > 0), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Name, b.Name),
		)
	})
}

// first orders a before b if only a is true.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// mostPods is how many pods of a job without problems have rows of their own in the short table.
const mostPods = 4

// PodTable shows pods in the order of [Cluster.ListPods]. Unless all are wanted, one row sums up the pods of a job that
// have the same status and no problem.
func PodTable(pods []Pod, namespaces, all bool) *metav1.Table {
	names := []string{"Job", "Pod", "Status", "Node", "HCAs", "Problem", "wide", "Claims", "Addresses"}
	if namespaces {
		names = append([]string{"Namespace"}, names...)
	}
	t := columns(names...)
	for len(pods) > 0 {
		n := alike(pods)
		cells := []any{pods[0].Job}
		if all || n <= mostPods {
			n = 1
			cells = append(cells, pods[0].cells(all)...)
		} else {
			cells = append(cells, sum(pods[:n])...)
		}
		if namespaces {
			cells = append([]any{pods[0].Namespace}, cells...)
		}
		row(t, cells...)
		pods = pods[n:]
	}
	return t
}

// alike counts the first pods that one row can sum up.
func alike(pods []Pod) int {
	n := 1
	if len(pods[0].Problems) > 0 || pods[0].Job == "" {
		return n
	}
	for n < len(pods) && pods[n].job() == pods[0].job() && pods[n].Status == pods[0].Status && len(pods[n].Problems) == 0 {
		n++
	}
	return n
}

func (p *Pod) cells(all bool) []any {
	problem, most := "", 4
	if n := len(p.Problems); n > 0 {
		problem = p.Problems[0]
		if all {
			problem = strings.Join(p.Problems, "; ")
		} else if n > 1 {
			problem += fmt.Sprintf(" (+%d)", n-1)
		}
	}
	if all {
		most = 8
	}
	return []any{
		p.Name, p.Status, p.Node, few(p.names(), most), problem, few(p.Claims, most), few(p.Addresses, most),
	}
}

// names returns the kernel's names of the devices, or the published ones if the slices are unknown.
func (p *Pod) names() []string {
	if len(p.IBDevs) > 0 {
		return p.IBDevs
	}
	return p.Devices
}

func sum(pods []Pod) []any {
	nodes, claims, devices := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range pods {
		nodes[pods[i].Node] = true
		for _, name := range pods[i].Claims {
			claims[name] = true
		}
		for _, name := range pods[i].Devices { // pods may share a claim
			devices[name] = true
		}
	}
	node := pods[0].Node
	if len(nodes) > 1 {
		node = phrase.Count(len(nodes), "node")
	}
	return []any{phrase.Count(len(pods), "pod"), pods[0].Status, node, phrase.Count(len(devices), "HCA"), "",
		phrase.Count(len(claims), "claim"), ""}
}
