package rdma

import (
	"fmt"
	"slices"
)

// NodeClass is a group of character devices. A container gets all of a class or none.
type NodeClass string

// The node classes, from least to most privileged.
const (
	ClassVerbs NodeClass = "verbs" // uverbsN of the HCA
	ClassCM    NodeClass = "cm"    // rdma_cm, where the host has it
	ClassMAD   NodeClass = "mad"   // umadN of every port
	ClassSM    NodeClass = "sm"    // issmN of every port
)

// NodeClasses lists all classes, least privilege first.
var NodeClasses = []NodeClass{ClassVerbs, ClassCM, ClassMAD, ClassSM}

// DefaultClasses are the classes without a configuration.
var DefaultClasses = []NodeClass{ClassVerbs, ClassCM}

// Privileged reports whether the class opens the management interface of a fabric. A process
// that sends MADs can take links down and read the routes of all traffic.
func (c NodeClass) Privileged() bool { return c == ClassMAD || c == ClassSM }

// ParseNodeClass checks the name of a class.
func ParseNodeClass(s string) (NodeClass, error) {
	if c := NodeClass(s); slices.Contains(NodeClasses, c) {
		return c, nil
	}
	return "", fmt.Errorf("unknown nodes %q: want one of verbs, cm, mad, sm", s)
}
