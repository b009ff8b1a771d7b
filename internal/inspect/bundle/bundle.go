// Package bundle makes a support archive of a cluster (kubectl rdma bundle): what the driver publishes, its events,
// logs and status pages, and which claims hold what. Names of nodes, namespaces, pods, claims and users, addresses and
// what looks like a secret are replaced; the same value by the same words. Claims are without what their users wrote.
//
// It is a function of what was read: it asks nobody.
package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/support"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Source is what an archive is made of.
type Source struct {
	Cluster *model.Cluster
	Status  string         // of the whole cluster, as kubectl rdma status -A prints it
	Events  []corev1.Event // of the driver
	Drivers []Driver
	// Missing says what could not be read, with the reason: one sentence each.
	Missing []string
	Version string // of kubectl rdma
	Key     []byte // of the scrubber; a random one if nil
}

// Driver is what the driver of a node says.
type Driver struct {
	Node string
	// Log is the end of its log, Previous that of the container before it, Page its status page as JSON. An empty one
	// could not be read, or there is none.
	Log, Previous, Page []byte
}

// MaxBytes bounds what drivers say in an archive.
const MaxBytes = 64 << 20

// Files returns the files of the archive, without what identifies.
func (s *Source) Files() ([]support.File, error) {
	if err := s.bounded(); err != nil {
		return nil, err
	}
	scrub := s.scrubber()
	files := []support.File{{Name: "status.txt", Data: []byte(redacted(scrub, s.Status))}}
	for _, object := range []struct {
		name  string
		value any
	}{
		{"nodes.json", s.nodes()}, {"slices.json", s.slices()}, {"claims.json", s.claims()}, {"events.json", s.events()},
	} {
		data, err := scrub.JSON(object.value)
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", object.name, err)
		}
		files = append(files, support.File{Name: object.name, Data: data})
	}
	for i, d := range s.Drivers {
		dir := fmt.Sprintf("drivers/%d-%s/", i+1, strings.Trim(strings.ReplaceAll(scrub.NameOf(d.Node), " ", "-"), "()"))
		files = append(files, support.File{Name: dir + "log.txt", Data: []byte(scrub.Text(string(d.Log)))})
		if len(d.Previous) > 0 {
			files = append(files, support.File{Name: dir + "previous.txt", Data: []byte(scrub.Text(string(d.Previous)))})
		}
		if len(d.Page) > 0 {
			files = append(files, support.File{Name: dir + "status.json", Data: page(d.Page, scrub)})
		}
	}
	return append([]support.File{s.readme(files, scrub)}, files...), nil
}

func (s *Source) bounded() error {
	total := 0
	for _, d := range s.Drivers {
		total += len(d.Log) + len(d.Previous) + len(d.Page)
	}
	if total > MaxBytes {
		return fmt.Errorf("the archive would have more than %d MiB: name fewer nodes", MaxBytes>>20)
	}
	return nil
}

// readme says what the archive has, and what it lacks.
func (s *Source) readme(files []support.File, scrub *support.Scrubber) support.File {
	var out bytes.Buffer
	fmt.Fprintf(&out, "A support archive of kubectl rdma bundle, %s.\n"+
		"Names, addresses and secrets are replaced. Read it before you share it.\n\n", s.Version)
	for _, f := range files {
		fmt.Fprintf(&out, "%9d  %s\n", len(f.Data), f.Name)
	}
	for _, m := range s.Missing {
		fmt.Fprintf(&out, "missing: %s\n", scrub.Text(m))
	}
	return support.File{Name: "README", Data: out.Bytes()}
}

func (s *Source) scrubber() *support.Scrubber {
	scrub := support.New(s.Key)
	s.names(scrub)
	return scrub
}

// HideDrains returns a copy of a cluster in which authors and reasons of drains are hidden. A table cuts such a text.
// Then no scrubber finds it.
func HideDrains(c *model.Cluster) *model.Cluster {
	out := *c
	out.Rules = slices.Clone(c.Rules)
	for i := range out.Rules {
		said := maps.Clone(out.Rules[i].Annotations)
		for _, key := range []string{model.DrainAuthor, model.DrainReason} {
			if said[key] != "" {
				said[key] = support.Hidden
			}
		}
		out.Rules[i].Annotations = said
	}
	return &out
}

// Redact returns, for a page (kubectl rdma report) with the results of tests of a namespace, "" for none, what names
// leaf switches, and what takes out of a text what identifies and what others wrote. HideDrains comes after it: Redact
// must see who drained.
func (s *Source) Redact(tests string) (leafName, hide func(string) string) {
	scrub := s.scrubber()
	scrub.Name("namespace", tests)
	return scrub.NameOf, func(text string) string { return redacted(scrub, text) }
}

// redacted takes out of a text what identifies, and what others wrote: text.Foreign has put that in quotes.
func redacted(scrub *support.Scrubber, text string) string {
	text = quoted.ReplaceAllString(text, support.Hidden)
	return scrub.Text(nodeTaint.ReplaceAllString(text, "="+support.Hidden+"${1}"))
}

// quoted is a text in quotes, which may be cut. nodeTaint is the value of a node's taint, which a site chooses.
var (
	quoted    = regexp.MustCompile(`(?m)"[^"\n]*("|$)`)
	nodeTaint = regexp.MustCompile(`=[\w.-]+(:(?:NoSchedule|PreferNoSchedule|NoExecute)\b)`)
)

// names collects the names that identify. The longest kind of knowledge goes first: a node's name is often a host's.
func (s *Source) names(scrub *support.Scrubber) {
	c := s.Cluster
	for _, n := range c.Nodes {
		scrub.Name("node", n.Name)
	}
	for _, d := range s.Drivers {
		scrub.Name("node", d.Node)
	}
	for _, slice := range c.Slices {
		if slice.Spec.NodeName != nil {
			scrub.Name("node", *slice.Spec.NodeName)
		}
		if slice.Spec.Driver == rdma.Domain {
			scrub.Name("node", slice.Spec.Pool.Name)
		}
		for i := range slice.Spec.Devices {
			if leaf := slice.Spec.Devices[i].Attributes[rdma.AttributeLeafSwitch].StringValue; leaf != nil {
				scrub.Name("leaf switch", *leaf)
			}
		}
	}
	for _, p := range c.Pods {
		scrub.Name("node", p.Spec.NodeName)
	}
	for _, n := range c.Nodes {
		for _, a := range n.Status.Addresses {
			if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
				scrub.Host(a.Address)
			}
		}
		scrub.Host(n.Name)
		scrub.Host(n.Labels[corev1.LabelHostname])
	}
	ours := map[string]bool{"": true, "default": true, "kube-system": true}
	for _, p := range c.View().Drivers {
		ours[p.Namespace] = true
	}
	object := func(kind, namespace, name string, owners ...metav1.OwnerReference) {
		if !ours[namespace] {
			scrub.Name("namespace", namespace)
		}
		scrub.Name(kind, name)
		for _, o := range owners {
			scrub.Name("workload", o.Name)
		}
	}
	for _, p := range c.UserPods {
		object("pod", p.Namespace, p.Name, p.OwnerReferences...)
		for _, j := range model.JobLabels {
			scrub.Name("workload", p.Labels[j.Label])
		}
		for _, label := range workloadLabels {
			scrub.Name("workload", p.Labels[label])
		}
		for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			scrub.Name("container", container.Name)
		}
		scrub.Name("node", p.Spec.NodeName)
	}
	for _, claim := range c.Claims {
		object("claim", claim.Namespace, claim.Name, claim.OwnerReferences...)
		for _, user := range claim.Status.ReservedFor {
			scrub.Name("pod", user.Name)
		}
	}
	for _, e := range slices.Concat(s.Events, c.Events) {
		if e.InvolvedObject.Kind != "Node" {
			object("object", e.InvolvedObject.Namespace, e.InvolvedObject.Name)
		}
	}
	for _, t := range c.Templates {
		object("template", t.Namespace, t.Name)
	}
	for i := range c.Rules {
		object("rule", "", c.Rules[i].Name)
		if d := model.DrainOf(&c.Rules[i]); d != nil {
			scrub.Name("node", d.Node)
		}
		scrub.Name("user", c.Rules[i].Annotations[model.DrainAuthor])
	}
}

// workloadLabels also have names of what pods belong to.
var workloadLabels = []string{
	"batch.kubernetes.io/job-name", "job-name", "kueue.x-k8s.io/queue-name", "app", "app.kubernetes.io/instance",
}

// page returns a status page, or the text that came in its place.
func page(data []byte, scrub *support.Scrubber) []byte {
	if out, err := scrub.JSON(json.RawMessage(data)); err == nil {
		return out
	}
	return []byte(scrub.Text(string(data)))
}

// nodes are the outlines of nodes: without labels and annotations, which sites write, and without values of taints.
func (s *Source) nodes() []corev1.Node {
	out := []corev1.Node{}
	for _, n := range s.Cluster.Nodes {
		var o corev1.Node
		o.Name, o.Status.NodeInfo, o.Status.Conditions = n.Name, n.Status.NodeInfo, n.Status.Conditions
		info := &o.Status.NodeInfo
		info.MachineID, info.SystemUUID, info.BootID = "", "", ""
		for _, t := range n.Spec.Taints {
			o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: t.Key, Effect: t.Effect})
		}
		out = append(out, o)
	}
	return out
}

// slices are the ResourceSlices of the driver. Values of attributes that others define are hidden: they may name the
// switches and racks of a site.
func (s *Source) slices() any {
	out := []resourceapi.ResourceSliceSpec{}
	for _, slice := range s.Cluster.Slices {
		if slice.Spec.Driver != rdma.Domain {
			continue
		}
		spec := slice.Spec.DeepCopy()
		for i := range spec.Devices {
			for name, value := range spec.Devices[i].Attributes {
				if value.StringValue != nil && isForeign(string(name)) {
					value.StringValue = new(support.Hidden)
					spec.Devices[i].Attributes[name] = value
				}
			}
		}
		out = append(out, *spec)
	}
	slices.SortStableFunc(out, func(a, b resourceapi.ResourceSliceSpec) int {
		return cmp.Compare(a.Pool.Name, b.Pool.Name)
	})
	return out
}

// isForeign reports whether an attribute is not defined by this project or by Kubernetes. One without a domain is the
// driver's, and a policy's attribute is one of these too.
func isForeign(name string) bool {
	domain, short, found := strings.Cut(name, "/")
	if !found {
		short = name
	} else if domain != rdma.Domain {
		return domain != "resource.kubernetes.io" && domain != "k8s.cni.cncf.io"
	}
	return !slices.Contains(rdma.ShownInArchives, short)
}

// claims are the outlines of claims of the driver's devices: who has what, and how it is. What users write in claims,
// such as selectors, parameters, labels and annotations, is left out.
func (s *Source) claims() []resourceapi.ResourceClaim {
	isOurs := func(r resourceapi.DeviceRequestAllocationResult) bool { return r.Driver == rdma.Domain }
	isOther := func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver != rdma.Domain }
	out := []resourceapi.ResourceClaim{}
	for _, c := range s.Cluster.Claims {
		var o resourceapi.ResourceClaim
		o.Namespace, o.Name, o.UID = c.Namespace, c.Name, c.UID
		o.CreationTimestamp, o.DeletionTimestamp = c.CreationTimestamp, c.DeletionTimestamp
		for _, r := range c.Spec.Devices.Requests {
			one := resourceapi.DeviceRequest{Name: r.Name}
			if e := r.Exactly; e != nil {
				one.Exactly = &resourceapi.ExactDeviceRequest{
					DeviceClassName: e.DeviceClassName, Count: e.Count, AdminAccess: e.AdminAccess,
				}
			}
			o.Spec.Devices.Requests = append(o.Spec.Devices.Requests, one)
		}
		if c.Status.Allocation != nil {
			results := c.Status.Allocation.Devices.Results
			if results != nil && !slices.ContainsFunc(results, isOurs) {
				continue // of other devices
			}
			o.Status.Allocation = &resourceapi.AllocationResult{}
			o.Status.Allocation.Devices.Results = results
		}
		o.Status.ReservedFor = c.Status.ReservedFor
		o.Status.Devices = slices.DeleteFunc(slices.Clone(c.Status.Devices), isOther)
		out = append(out, o)
	}
	return out
}

// events are what the driver has told, the newest last.
func (s *Source) events() []corev1.Event {
	out := append([]corev1.Event{}, s.Events...)
	model.SortEvents(out)
	for i, e := range out {
		out[i] = corev1.Event{
			InvolvedObject: corev1.ObjectReference{
				Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name,
			},
			Type: e.Type, Reason: e.Reason, Message: e.Message, Count: e.Count,
			Source:         corev1.EventSource{Host: e.Source.Host},
			FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp,
		}
	}
	return out
}
