package cdi

import (
	"fmt"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// NodeClass is a group of character devices that is given or withheld as one.
type NodeClass string

// The node classes, from what every program needs to what reconfigures a fabric.
const (
	Verbs NodeClass = "verbs" // uverbsN of the HCA
	CM    NodeClass = "cm"    // rdma_cm, where the host has it
	MAD   NodeClass = "mad"   // umadN of every port
	SM    NodeClass = "sm"    // issmN of every port
)

// NodeClasses lists all classes, least privilege first.
var NodeClasses = []NodeClass{Verbs, CM, MAD, SM}

// DefaultNodes is what a container gets when nobody says otherwise.
var DefaultNodes = []NodeClass{Verbs, CM}

// Privileged reports whether the class opens the management interface of a
// fabric: who sends MADs can take links down and read all traffic's routes.
func (c NodeClass) Privileged() bool { return c == MAD || c == SM }

// ParseNodeClass checks the name of a class.
func ParseNodeClass(s string) (NodeClass, error) {
	for _, c := range NodeClasses {
		if s == string(c) {
			return c, nil
		}
	}
	names := make([]string, len(NodeClasses))
	for i, c := range NodeClasses {
		names[i] = string(c)
	}
	return "", fmt.Errorf("unknown nodes %q: want one of %s", s, strings.Join(names, ", "))
}

// SelectNodes returns the nodes of an HCA in those classes. It fails when the
// HCA has no node of a class that was asked for, since a program that needs it
// would fall back to something slower without a word. Only rdma_cm may be
// absent: most programs do without it, and then the host has the module not
// loaded for a reason.
func SelectNodes(h *rdma.HCA, rdmaCM *rdma.Node, classes []NodeClass) ([]rdma.Node, error) {
	if err := h.Unusable(); err != nil {
		return nil, err
	}
	var nodes []rdma.Node
	for _, c := range classes {
		switch c {
		case Verbs:
			nodes = append(nodes, *h.Uverbs)
		case CM:
			if rdmaCM != nil {
				nodes = append(nodes, *rdmaCM)
			}
		case MAD, SM:
			mads := madNodes(h, c)
			if len(mads) == 0 {
				return nil, fmt.Errorf("HCA %s has no %s node: %s", h.IBDev, nodeKind(c), noMADs)
			}
			nodes = append(nodes, mads...)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("HCA %s gives no node: the host has no rdma_cm; load the rdma_ucm module", h.IBDev)
	}
	return nodes, nil
}

// noMADs is why an HCA may have no management nodes.
const noMADs = "EFA and iWARP have none, and newer kernels have no issm for RoCE; else load the ib_umad module"

func nodeKind(c NodeClass) rdma.NodeKind {
	if c == SM {
		return rdma.NodeISSM
	}
	return rdma.NodeUMAD
}

func madNodes(h *rdma.HCA, c NodeClass) []rdma.Node {
	var nodes []rdma.Node
	for _, n := range h.MADs {
		if n.Kind == nodeKind(c) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
