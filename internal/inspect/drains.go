package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// What marks a DeviceTaintRule of kubectl rdma drain. Only rules with the label and the taint's key are changed or
// removed.
const (
	// DrainKey is the key of the taint, and of the label that names the drained HCA.
	DrainKey = driver + "/drain"
	// DrainNode is the value of the label in the rule for a whole node.
	DrainNode = "node"
	// DrainReason and DrainAuthor are annotations.
	DrainReason = driver + "/drain-reason"
	DrainAuthor = driver + "/drain-author"
	// DrainPreview is the label of a rule that exists for a moment, to learn what the API server would evict.
	DrainPreview = driver + "/drain-preview"
)

// Drain is an HCA or a node that somebody took out of service with kubectl rdma drain.
type Drain struct {
	Node string `json:"node"`
	// HCA is the name of its device, "" for the whole node. IBDev is the kernel's name, if the device is published.
	HCA    string                        `json:"hca,omitempty"`
	IBDev  string                        `json:"ibdev,omitempty"`
	Effect resourceapi.DeviceTaintEffect `json:"effect"`
	Reason string                        `json:"reason,omitempty"`
	Author string                        `json:"author,omitempty"`
	Since  metav1.Time                   `json:"since"`
	Rules  []string                      `json:"rules"`
}

// IsDrain reports whether a rule is one of kubectl rdma drain for a node of this driver.
func IsDrain(rule *resourceapi.DeviceTaintRule) bool {
	want := rule.Spec.DeviceSelector
	return rule.Labels[DrainKey] != "" && rule.Spec.Taint.Key == DrainKey &&
		want != nil && deref(want.Driver) == driver && deref(want.Pool) != ""
}

// drainOf returns what a rule of a drain says, nil for another rule.
func drainOf(rule *resourceapi.DeviceTaintRule) *Drain {
	if !IsDrain(rule) {
		return nil
	}
	d := &Drain{
		Node: deref(rule.Spec.DeviceSelector.Pool), HCA: rule.Labels[DrainKey], Effect: rule.Spec.Taint.Effect,
		Reason: rule.Annotations[DrainReason], Author: rule.Annotations[DrainAuthor], Since: rule.CreationTimestamp,
	}
	if rule.Spec.DeviceSelector.Device == nil {
		d.HCA = ""
	}
	return d
}

// ListDrains returns what is drained, the longest first. An HCA has a rule for each of its devices.
func (c *Cluster) ListDrains() (out []Drain) {
	ibdevs := ibdevsOfHCAs(c.Slices)
	for i := range c.Rules {
		d := drainOf(&c.Rules[i])
		if d == nil {
			continue
		}
		d.Rules = []string{c.Rules[i].Name}
		same := slices.IndexFunc(out, func(o Drain) bool { return o.Node == d.Node && o.HCA == d.HCA })
		if same < 0 {
			d.IBDev = ibdevs[d.Node+"/"+d.HCA]
			out = append(out, *d)
			continue
		}
		o := &out[same]
		o.Rules = append(o.Rules, d.Rules...)
		if d.Since.Before(&o.Since) {
			o.Since = d.Since
		}
	}
	slices.SortFunc(out, func(a, b Drain) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.HCA, b.HCA))
	})
	return out
}

// ibdevsOfHCAs returns the kernel's names of the published HCAs, by NODE/HCA.
func ibdevsOfHCAs(all []resourceapi.ResourceSlice) map[string]string {
	out := map[string]string{}
	for i := range all {
		for j := range all[i].Spec.Devices {
			if d := (&device{Device: &all[i].Spec.Devices[j]}); all[i].Spec.Driver == driver {
				out[all[i].Spec.Pool.Name+"/"+HCAOf(d.Name)] = d.text("ibdev")
			}
		}
	}
	return out
}

// String names the drained HCA, or the node.
func (d *Drain) String() string {
	switch {
	case d.HCA == "":
		return "node " + d.Node
	case d.IBDev == "":
		return d.Node + "/" + d.HCA
	}
	return d.Node + "/" + d.HCA + " (" + d.IBDev + ")"
}

// by returns who drained it and why, for a sentence about the rule.
func (d *Drain) by() string {
	var parts []string
	if d.Author != "" {
		parts = append(parts, "by "+text.Foreign(d.Author))
	}
	if d.Reason != "" {
		parts = append(parts, text.Foreign(d.Reason))
	}
	if parts == nil {
		return ""
	}
	return ", drained " + strings.Join(parts, ": ")
}

// maxSaid bounds what an annotation says in a table.
const maxSaid = 256

// DrainTable shows drains, with their ages at now.
func DrainTable(drains []Drain, now time.Time) *metav1.Table {
	t := columns("Drained", "Effect", "Age", "By", "Reason", "wide", "Rules")
	for i := range drains {
		d := &drains[i]
		age := "<unknown>"
		if !d.Since.IsZero() {
			age = duration.HumanDuration(now.Sub(d.Since.Time))
		}
		row(t, d.String(), string(d.Effect), age, text.Bound(d.Author, maxSaid), text.Bound(d.Reason, maxSaid),
			few(d.Rules, 2))
	}
	return t
}
