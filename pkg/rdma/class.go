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
	ClassPSM   NodeClass = "psm"   // hfi1_N of an Omni-Path HCA, for PSM2 and OPX
	ClassMAD   NodeClass = "mad"   // umadN of every port
	ClassSM    NodeClass = "sm"    // issmN of every port
)

// NodeClasses lists all classes, least privilege first.
var NodeClasses = []NodeClass{ClassVerbs, ClassCM, ClassPSM, ClassMAD, ClassSM}

// DefaultClasses are the classes without a configuration. ClassPSM is not among them: the rdma cgroup controller does
// not count what a process holds of hfi1_N, so limits do not bound it, and exclusive network namespaces do not keep
// it apart.
var DefaultClasses = []NodeClass{ClassVerbs, ClassCM}

// Privileged reports whether the class opens the management interface of a fabric. A process
// that sends MADs can take links down and read the routes of all traffic.
func (c NodeClass) Privileged() bool { return c == ClassMAD || c == ClassSM }

// ParseNodeClass checks the name of a class.
func ParseNodeClass(s string) (NodeClass, error) {
	if c := NodeClass(s); slices.Contains(NodeClasses, c) {
		return c, nil
	}
	return "", fmt.Errorf("unknown nodes %q: want one of verbs, cm, psm, mad, sm", s)
}
