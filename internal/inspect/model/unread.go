package model

import (
	"slices"
	"strings"
)

// Kind is a kind of object that questions need.
type Kind string

// The kinds.
const (
	Nodes   Kind = "nodes"
	Pods    Kind = "pods" // of the driver
	Slices  Kind = "resourceslices"
	Claims  Kind = "resourceclaims"
	Classes Kind = "deviceclasses"
	// OwnClaims are those of the namespace that a question is about, Claims those of all namespaces.
	OwnClaims Kind = "resourceclaims of the namespace"
	// Rules are read in the version that the API server serves, and are never what a question is about.
	Rules Kind = "devicetaintrules"
	// UserPods are all pods, or those that a reader selects.
	UserPods Kind = "pods of users"
	// Templates are ResourceClaimTemplates; Events are Warnings about pods.
	Templates Kind = "resourceclaimtemplates"
	Events    Kind = "events"
	// Namespace is that of the pod, for its labels.
	Namespace Kind = "namespaces"
	// NodeEvents are those of one node. The driver writes them into the namespace default.
	NodeEvents Kind = "events of the node"
	// EmptyNodes are the events of drivers that publish nothing.
	EmptyNodes Kind = "events of nodes without devices"
)

// Unread is a kind of object that could not be read, or not all of it. Why is a sentence with the reason.
type Unread struct {
	Kind Kind
	Why  string
}

// UnreadKinds are the kinds that could not be read.
type UnreadKinds []Unread

// Has reports whether one of some kinds of object could not be read.
func (l UnreadKinds) Has(kinds ...Kind) bool {
	return slices.ContainsFunc(l, func(u Unread) bool { return slices.Contains(kinds, u.Kind) })
}

// Unseen is the end of a sentence that would be right if no look had failed: it names those that did. A look is a kind.
func (l UnreadKinds) Unseen(looks ...string) string {
	var names []string
	for _, look := range looks {
		if l.Has(Kind(look)) {
			names = append(names, look)
		}
	}
	if names == nil {
		return ""
	}
	return ", as far as can be seen without " + strings.Join(names, " and ")
}

// Why returns what could not be read, and why: one sentence each.
func (l UnreadKinds) Why() (out []string) {
	for _, u := range l {
		out = append(out, u.Why)
	}
	return out
}

// Counter returns 0, or nil if a kind of object that is counted could not be read.
func (l UnreadKinds) Counter(kinds ...Kind) *int {
	if l.Has(kinds...) {
		return nil
	}
	return new(int)
}
