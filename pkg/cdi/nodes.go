package cdi

import (
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// NodeClass is a group of character devices. A container gets all of a class or none.
type NodeClass string

// The node classes, from least to most privileged.
const (
	Verbs NodeClass = "verbs" // uverbsN of the HCA
	CM    NodeClass = "cm"    // rdma_cm, where the host has it
	MAD   NodeClass = "mad"   // umadN of every port
	SM    NodeClass = "sm"    // issmN of every port
)

// NodeClasses lists all classes, least privilege first.
var NodeClasses = []NodeClass{Verbs, CM, MAD, SM}

// DefaultNodes are the classes without a configuration.
var DefaultNodes = []NodeClass{Verbs, CM}

// Privileged reports whether the class opens the management interface of a fabric. A process
// that sends MADs can take links down and read the routes of all traffic.
func (c NodeClass) Privileged() bool { return c == MAD || c == SM }

// ParseNodeClass checks the name of a class.
func ParseNodeClass(s string) (NodeClass, error) {
	if c := NodeClass(s); slices.Contains(NodeClasses, c) {
		return c, nil
	}
	return "", fmt.Errorf("unknown nodes %q: want one of verbs, cm, mad, sm", s)
}

// SelectNodes returns the nodes of an HCA in the given classes. It fails if the HCA has no
// node of a class, because a program without it would silently use something slower. Only
// rdma_cm may be absent: most programs do not need it, and an administrator may have left
// the module out on purpose.
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

// noMADs explains why an HCA has no management nodes.
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
