package cdi

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// SelectNodes returns the nodes of an HCA in the given classes. It fails if the HCA has no
// node of a class, because a program without it would silently use something slower. Only
// rdma_cm may be absent: most programs do not need it, and an administrator may have left
// the module out on purpose.
func SelectNodes(h *rdma.HCA, rdmaCM *rdma.Node, classes []rdma.NodeClass) ([]rdma.Node, error) {
	if err := h.Unusable(); err != nil {
		return nil, err
	}
	var nodes []rdma.Node
	for _, c := range classes {
		switch c {
		case rdma.ClassVerbs:
			nodes = append(nodes, *h.Uverbs)
		case rdma.ClassCM:
			if rdmaCM != nil && !rdmaCM.Missing {
				nodes = append(nodes, *rdmaCM)
			}
		case rdma.ClassPSM:
			if h.PSM == nil {
				return nil, fmt.Errorf("HCA %s has no hfi1 node: %s", h.IBDev, noPSM)
			}
			if h.PSM.Missing {
				return nil, fmt.Errorf("HCA %s: /dev lacks its node %s", h.IBDev, h.PSM.Name)
			}
			nodes = append(nodes, *h.PSM)
		case rdma.ClassMAD, rdma.ClassSM:
			mads := madNodes(h, c)
			if len(mads) == 0 {
				return nil, fmt.Errorf("HCA %s has no %s node: %s", h.IBDev, nodeKind(c), noMADs)
			}
			nodes = append(nodes, mads...)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("HCA %s gives no node: the host has no node rdma_cm; load the rdma_ucm module", h.IBDev)
	}
	return nodes, nil
}

// noMADs explains why an HCA has no management nodes.
const noMADs = "EFA and iWARP have none, and newer kernels have no issm for RoCE; else load the ib_umad module"

// noPSM explains why an HCA has no node for PSM.
const noPSM = "only Omni-Path has one; of several Omni-Path cards, only those whose HCAs have the kernel's names (hfi1_0): " +
	"remove the rule of udev that renames them"

func nodeKind(c rdma.NodeClass) rdma.NodeKind {
	if c == rdma.ClassSM {
		return rdma.NodeISSM
	}
	return rdma.NodeUMAD
}

func madNodes(h *rdma.HCA, c rdma.NodeClass) []rdma.Node {
	var nodes []rdma.Node
	for _, n := range h.MADs {
		if n.Kind == nodeKind(c) && !n.Missing {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
