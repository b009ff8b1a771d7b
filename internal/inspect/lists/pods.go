package lists

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
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
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

	question *why.Question
}

// Question is what to ask why about the pod, nil if the user may not read pods.
func (p *Pod) Question() *why.Question { return p.question }

func jobOf(pod *corev1.Pod) string {
	for _, j := range model.JobLabels {
		if name := pod.Labels[j.Label]; name != "" {
			return j.Kind + "/" + name
		}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return ""
}

// Pods returns the pods that have not ended by themselves and have claims for devices of this driver, by job. Jobs
// and pods with problems come first. If UserPods is nil, the pods are those for which claims are reserved.
func Pods(ctx context.Context, c *model.Cluster) []Pod {
	v := c.View()
	ours := v.ClassesOfDriver(ctx)
	users := usersOf(v, ours)
	var out []Pod
	if c.UserPods == nil {
		for name, claims := range users {
			pod := Pod{Namespace: name.Namespace, Name: name.Name, Claims: []string{}}
			for _, claim := range claims {
				addClaim(v, &pod, claim)
				for _, f := range append(why.Faults(v, claim), why.Unusable(claim)...) {
					pod.Problems = append(pod.Problems, f.Message)
				}
			}
			out = append(out, pod)
		}
	}
	facts := factsOfPods(c)
	for i := range c.UserPods {
		p := &c.UserPods[i]
		if model.Ended(p) && p.DeletionTimestamp == nil && !why.EndedByKubernetes(p) {
			continue
		}
		question := facts.question(p)
		causes := why.CausesOf(v, question)
		others := func(c *resourceapi.ResourceClaim) bool { return !concerns(c, ours) }
		claims := slices.DeleteFunc(causes.Claims(true), others)
		for _, claim := range users[model.NameOf(p)] { // those for extended resources
			claims = model.AppendNew(claims, claim)
		}
		if len(claims) == 0 && !facts.mayAsk(v, p, causes.Claims(false), ours) {
			continue
		}
		pod := Pod{
			Namespace: p.Namespace, Name: p.Name, Claims: []string{},
			Job: jobOf(p), Status: model.Phase(p), Node: p.Spec.NodeName, question: question,
		}
		for _, claim := range claims {
			addClaim(v, &pod, claim)
		}
		pod.Problems = append(causes.Problems(), pod.Problems...)
		out = append(out, pod)
	}
	sortByJob(out)
	return out
}

// usersOf returns the claims for RDMA devices by the pods for which they are reserved.
func usersOf(v *model.View, ours map[string]bool) map[types.NamespacedName][]*resourceapi.ResourceClaim {
	out := map[types.NamespacedName][]*resourceapi.ResourceClaim{}
	for i := range v.Cluster.Claims {
		claim := &v.Cluster.Claims[i]
		if !concerns(claim, ours) {
			continue
		}
		for _, user := range model.PodsOf(claim) {
			name := types.NamespacedName{Namespace: claim.Namespace, Name: user}
			out[name] = model.AppendNew(out[name], claim)
		}
	}
	return out
}

// podFacts is what was read about pods: events by pod, and templates, nil if they were not read.
type podFacts struct {
	events    map[types.UID][]corev1.Event
	templates map[types.NamespacedName]*resourceapi.ResourceClaimTemplate
}

func factsOfPods(c *model.Cluster) podFacts {
	f := podFacts{events: map[types.UID][]corev1.Event{}}
	for _, e := range c.Events {
		f.events[e.InvolvedObject.UID] = append(f.events[e.InvolvedObject.UID], e)
	}
	for _, events := range f.events {
		model.SortEvents(events)
	}
	if c.Templates != nil {
		f.templates = map[types.NamespacedName]*resourceapi.ResourceClaimTemplate{}
	}
	for i := range c.Templates {
		f.templates[model.NameOf(&c.Templates[i])] = &c.Templates[i]
	}
	return f
}

func (f *podFacts) question(pod *corev1.Pod) *why.Question {
	q := &why.Question{Pod: *pod, Events: f.events[pod.UID], Templates: map[string]bool{}}
	for _, ref := range pod.Spec.ResourceClaims {
		if name := ptr.Deref(ref.ResourceClaimTemplateName, ""); name != "" && f.templates != nil {
			q.Templates[name] = f.templates[types.NamespacedName{Namespace: pod.Namespace, Name: name}] != nil
		}
	}
	return q
}

// mayAsk reports whether a pod without a claim for RDMA devices asks for some: by a template, by extended resources, or
// by a claim or template that is missing, so that nobody can tell.
func (f *podFacts) mayAsk(
	v *model.View, pod *corev1.Pod, unmade []*resourceapi.ResourceClaim, ours map[string]bool,
) bool {
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(pod, ref)
		switch {
		case err == nil && name == nil, // it needs no claim
			err == nil && v.Claims[types.NamespacedName{Namespace: pod.Namespace, Name: *name}] != nil:
		case ref.ResourceClaimTemplateName == nil:
			return true
		default:
			t := f.templates[types.NamespacedName{Namespace: pod.Namespace, Name: *ref.ResourceClaimTemplateName}]
			if t == nil || concerns(&resourceapi.ResourceClaim{Spec: t.Spec.Spec}, ours) {
				return true
			}
		}
	}
	return slices.ContainsFunc(unmade, func(c *resourceapi.ResourceClaim) bool { return concerns(c, ours) })
}

func addClaim(v *model.View, pod *Pod, claim *resourceapi.ResourceClaim) {
	pod.Claims = append(pod.Claims, claim.Name)
	for _, r := range model.ResultsOf(claim) {
		if r.Driver == rdma.Domain {
			pod.Devices = model.AppendNew(pod.Devices, model.DeviceName(structured.MakeDeviceID(r.Driver, r.Pool, r.Device)))
		}
	}
	pod.IBDevs = append(pod.IBDevs, ibdevsOf(v, claim)...)
	pod.Addresses = append(pod.Addresses, addressesOf(claim)...)
	pod.Node = cmp.Or(pod.Node, model.ClaimNode(claim))
	if claim.Status.Allocation == nil && pod.Status != "Terminating" {
		pod.Problems = append(pod.Problems, fmt.Sprintf("claim %s has no devices: kubectl rdma why %s", claim.Name, pod.Name))
	}
}

// Owner is the job of a pod, with its namespace. A pod without one is its own.
func (p *Pod) Owner() string { return p.Namespace + "/" + cmp.Or(p.Job, p.Name) }

// sortByJob sorts by job. What has problems comes first.
func sortByJob(pods []Pod) {
	unwell := map[string]int{}
	for i := range pods {
		unwell[pods[i].Owner()] = max(unwell[pods[i].Owner()], len(pods[i].Problems))
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(
			first(unwell[a.Owner()] > 0, unwell[b.Owner()] > 0), cmp.Compare(a.Owner(), b.Owner()),
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

// PodTable shows pods in the order of [Pods]. Unless all are wanted, one row sums up the pods of a job that
// have the same status and no problem.
func PodTable(pods []Pod, namespaces, all bool) *metav1.Table {
	names := []string{"Job", "Pod", "Status", "Node", "HCAs", "Problem", "wide", "Claims", "Addresses"}
	if namespaces {
		names = append([]string{"Namespace"}, names...)
	}
	t := Columns(names...)
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
		Row(t, cells...)
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
	for n < len(pods) && pods[n].Owner() == pods[0].Owner() && pods[n].Status == pods[0].Status &&
		len(pods[n].Problems) == 0 {
		n++
	}
	return n
}

func (p *Pod) cells(all bool) []any {
	problem, most := "", 4
	if n := len(p.Problems); n > 0 {
		problem = cut(p.Problems[0])
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
		p.Name, p.Status, p.Node, model.Few(p.names(), most), problem, model.Few(p.Claims, most),
		model.Few(p.Addresses, most),
	}
}

// firstOfProblem and lastOfProblem are the most of a problem, in bytes, that the short table shows. A chain of errors
// ends with its cause. What others wrote stays in quotes.
const firstOfProblem, lastOfProblem = 80, 120

func cut(problem string) string {
	if len(problem) <= firstOfProblem+lastOfProblem {
		return problem
	}
	first := strings.ToValidUTF8(problem[:firstOfProblem], "")
	last := strings.ToValidUTF8(problem[len(problem)-lastOfProblem:], "")
	if strings.Count(first, `"`)%2 == 1 {
		first += `"`
	}
	if strings.Count(last, `"`)%2 == 1 {
		last = `"` + last
	}
	return first + " ... " + last
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
		node = text.Count(len(nodes), "node")
	}
	return []any{text.Count(len(pods), "pod"), pods[0].Status, node, text.Count(len(devices), "HCA"), "",
		text.Count(len(claims), "claim"), ""}
}
