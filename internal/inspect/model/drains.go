package model

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// What marks a DeviceTaintRule of kubectl rdma drain. Only rules with the label and the taint's key are changed or
// removed.
const (
	// DrainKey is the key of the taint, and of the label that names the drained HCA.
	DrainKey = rdma.Domain + "/drain"
	// DrainNode is the value of the label in the rule for a whole node.
	DrainNode = "node"
	// DrainReason and DrainAuthor are annotations.
	DrainReason = rdma.Domain + "/drain-reason"
	DrainAuthor = rdma.Domain + "/drain-author"
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
		want != nil && ptr.Deref(want.Driver, "") == rdma.Domain && ptr.Deref(want.Pool, "") != ""
}

// DrainOf returns what a rule of a drain says, nil for another rule.
func DrainOf(rule *resourceapi.DeviceTaintRule) *Drain {
	if !IsDrain(rule) {
		return nil
	}
	d := &Drain{
		Node: ptr.Deref(rule.Spec.DeviceSelector.Pool, ""), HCA: rule.Labels[DrainKey], Effect: rule.Spec.Taint.Effect,
		Reason: rule.Annotations[DrainReason], Author: rule.Annotations[DrainAuthor], Since: rule.CreationTimestamp,
	}
	if rule.Spec.DeviceSelector.Device == nil {
		d.HCA = ""
	}
	return d
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
