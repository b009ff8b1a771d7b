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
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/archive"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
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
func (s *Source) Files() ([]archive.File, error) {
	if err := s.bounded(); err != nil {
		return nil, err
	}
	scrub := newScrubber()
	s.names(scrub)
	files := []archive.File{{Name: "status.txt", Data: []byte(scrub.text(s.Status))}}
	for _, object := range []struct {
		name  string
		value any
	}{
		{"nodes.json", s.nodes()}, {"slices.json", s.slices()}, {"claims.json", s.claims()}, {"events.json", s.events()},
	} {
		data, err := scrub.json(object.value)
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", object.name, err)
		}
		files = append(files, archive.File{Name: object.name, Data: data})
	}
	for i, d := range s.Drivers {
		dir := fmt.Sprintf("drivers/%d-%s/", i+1, strings.Trim(strings.ReplaceAll(scrub.name(d.Node), " ", "-"), "()"))
		files = append(files, archive.File{Name: dir + "log.txt", Data: []byte(scrub.text(string(d.Log)))})
		if len(d.Previous) > 0 {
			files = append(files, archive.File{Name: dir + "previous.txt", Data: []byte(scrub.text(string(d.Previous)))})
		}
		if len(d.Page) > 0 {
			files = append(files, archive.File{Name: dir + "status.json", Data: scrub.page(d.Page)})
		}
	}
	return append([]archive.File{s.readme(files, scrub)}, files...), nil
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
func (s *Source) readme(files []archive.File, scrub *scrubber) archive.File {
	var out bytes.Buffer
	fmt.Fprintf(&out, "A support archive of kubectl rdma bundle, %s.\n"+
		"Names, addresses and secrets are replaced. Read it before you share it.\n\n", s.Version)
	for _, f := range files {
		fmt.Fprintf(&out, "%9d  %s\n", len(f.Data), f.Name)
	}
	for _, m := range s.Missing {
		fmt.Fprintf(&out, "missing: %s\n", scrub.text(m))
	}
	return archive.File{Name: "README", Data: out.Bytes()}
}

// names collects the names that identify. The longest kind of knowledge goes first: a node's name is often a host's.
func (s *Source) names(scrub *scrubber) {
	c := s.Cluster
	for _, n := range c.Nodes {
		scrub.add("node", n.Name)
	}
	for _, d := range s.Drivers {
		scrub.add("node", d.Node)
	}
	for _, slice := range c.Slices {
		if slice.Spec.NodeName != nil {
			scrub.add("node", *slice.Spec.NodeName)
		}
	}
	for _, p := range c.Pods {
		scrub.add("node", p.Spec.NodeName)
	}
	for _, n := range c.Nodes {
		for _, a := range n.Status.Addresses {
			if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
				scrub.host(a.Address)
			}
		}
		scrub.host(n.Name)
		scrub.host(n.Labels[corev1.LabelHostname])
	}
	ours := map[string]bool{"default": true, "kube-system": true}
	for _, p := range c.Pods { // the driver's own
		ours[p.Namespace] = true
	}
	object := func(kind, namespace, name string) {
		if !ours[namespace] {
			scrub.add("namespace", namespace)
		}
		scrub.add(kind, name)
	}
	for _, p := range c.UserPods {
		object("pod", p.Namespace, p.Name)
		for _, o := range p.OwnerReferences {
			scrub.add("workload", o.Name)
		}
		for key, value := range p.Labels {
			if workloadLabels[key] {
				scrub.add("workload", value)
			}
		}
		for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			scrub.add("container", container.Name)
		}
		scrub.add("node", p.Spec.NodeName)
	}
	for _, claim := range c.Claims {
		object("claim", claim.Namespace, claim.Name)
		for _, o := range claim.OwnerReferences {
			scrub.add("workload", o.Name)
		}
		for _, user := range claim.Status.ReservedFor {
			scrub.add("pod", user.Name)
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
	for _, r := range c.Rules {
		scrub.add("rule", r.Name)
		scrub.add("user", r.Annotations[model.DrainAuthor])
	}
}

// workloadLabels have the names of the jobs to which pods belong.
var workloadLabels = map[string]bool{
	"batch.kubernetes.io/job-name": true, "job-name": true, "jobset.sigs.k8s.io/jobset-name": true,
	"leaderworkerset.sigs.k8s.io/name": true, "kueue.x-k8s.io/queue-name": true, "app": true,
	"app.kubernetes.io/instance": true,
}

// host adds a name of a host, and its domain.
func (s *scrubber) host(name string) {
	short, domain, _ := strings.Cut(name, ".")
	s.add("host", name)
	s.add("host", short)
	if strings.Contains(domain, ".") {
		s.add("domain", domain)
	}
}

// json encodes a value whose texts are replaced.
func (s *scrubber) json(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	var plain any
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		err = decoder.Decode(&plain)
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = text.JSON(&out, s.value(plain))
	return out.Bytes(), err
}

// page returns a status page, or the text that came in its place.
func (s *scrubber) page(data []byte) []byte {
	if out, err := s.json(json.RawMessage(data)); err == nil {
		return out
	}
	return []byte(s.text(string(data)))
}

// nodes are the outlines of nodes: without labels and annotations, which sites write.
func (s *Source) nodes() any {
	type node struct {
		Name       string                 `json:"name"`
		Info       corev1.NodeSystemInfo  `json:"info"`
		Conditions []corev1.NodeCondition `json:"conditions"`
		Taints     []string               `json:"taints,omitempty"` // their keys and effects
	}
	out := []node{}
	for _, n := range s.Cluster.Nodes {
		o := node{Name: n.Name, Info: n.Status.NodeInfo, Conditions: n.Status.Conditions}
		o.Info.MachineID, o.Info.SystemUUID, o.Info.BootID = "", "", ""
		for _, t := range n.Spec.Taints {
			o.Taints = append(o.Taints, t.Key+":"+string(t.Effect))
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
					value.StringValue = new(hidden)
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
	return !ownAttributes[short]
}

// ownAttributes are the attributes of the driver that name nothing of a site.
var ownAttributes = map[string]bool{
	"ibdev": true, "nodeGUID": true, "sysImageGUID": true, "linkLayer": true, "protocol": true, "function": true,
	"parentPCI": true, "vendor": true, "model": true, "driver": true, "boardID": true, "firmware": true, "netdev": true,
	"subnetPrefix": true, "pcieSwitch": true, "netnsMode": true,
}

// claims are the outlines of claims of the driver's devices: who has what, and how it is. What users write in claims,
// such as selectors, parameters, labels and annotations, is left out.
func (s *Source) claims() any {
	type request struct {
		Name  string `json:"name"`
		Class string `json:"class,omitempty"`
		Count int64  `json:"count,omitempty"`
		Admin bool   `json:"adminAccess,omitempty"`
	}
	type claim struct {
		Namespace string                                      `json:"namespace"`
		Name      string                                      `json:"name"`
		UID       string                                      `json:"uid"`
		Created   string                                      `json:"created"`
		Deleted   bool                                        `json:"deleted,omitempty"`
		Requests  []request                                   `json:"requests"`
		Results   []resourceapi.DeviceRequestAllocationResult `json:"results"`
		Pods      []string                                    `json:"pods"`
		Devices   []resourceapi.AllocatedDeviceStatus         `json:"devices"` // of the driver
	}
	out := []claim{}
	for _, c := range s.Cluster.Claims {
		o := claim{
			Namespace: c.Namespace, Name: c.Name, UID: string(c.UID),
			Created: c.CreationTimestamp.UTC().Format(time.RFC3339), Deleted: c.DeletionTimestamp != nil,
		}
		for _, r := range c.Spec.Devices.Requests {
			one := request{Name: r.Name}
			if e := r.Exactly; e != nil {
				one.Class, one.Count, one.Admin = e.DeviceClassName, e.Count, e.AdminAccess != nil && *e.AdminAccess
			}
			o.Requests = append(o.Requests, one)
		}
		if c.Status.Allocation != nil {
			o.Results = c.Status.Allocation.Devices.Results
		}
		isOurs := func(r resourceapi.DeviceRequestAllocationResult) bool { return r.Driver == rdma.Domain }
		if o.Results != nil && !slices.ContainsFunc(o.Results, isOurs) {
			continue // of other devices
		}
		for _, user := range c.Status.ReservedFor {
			o.Pods = append(o.Pods, user.Name)
		}
		for _, d := range c.Status.Devices {
			if d.Driver == rdma.Domain {
				o.Devices = append(o.Devices, d)
			}
		}
		out = append(out, o)
	}
	return out
}

// events are what the driver has told, the newest last.
func (s *Source) events() any {
	type event struct {
		Object  string `json:"object"`
		Type    string `json:"type"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
		Node    string `json:"node,omitempty"`
		Count   int32  `json:"count"`
		First   string `json:"first"`
		Last    string `json:"last"`
	}
	all := slices.Clone(s.Events)
	model.SortEvents(all)
	out := []event{}
	for _, e := range all {
		at := func(t interface{ String() string }) string { return t.String() }
		out = append(out, event{
			Object: e.InvolvedObject.Kind + " " + e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name,
			Type:   e.Type, Reason: e.Reason, Message: e.Message, Node: e.Source.Host, Count: e.Count,
			First: at(e.FirstTimestamp.UTC()), Last: at(e.LastTimestamp.UTC()),
		})
	}
	return out
}
