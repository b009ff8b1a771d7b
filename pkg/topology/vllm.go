package topology

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// VLLM writes which HCA each GPU of a host uses, in the format of VLLM_GPU_NIC_PCIE_MAPPING: pairs of PCI addresses
// (vllm/v1/executor/vllm_net_devices.py, vLLM pull request 42083). It takes the nearest of the given HCAs. A GPU is
// absent if several are equally near: vLLM takes one for each. It does not take an SF, which has no PCI address.
func VLLM(sys fs.ReadLinkFS, snap *rdma.Snapshot, hcas []*rdma.HCA) string {
	candidates := slices.DeleteFunc(slices.Clone(hcas), func(h *rdma.HCA) bool {
		return h.PCI == nil || h.Function == rdma.SF || h.Port1() == nil || h.Port1().Number != 1
	})
	var pairs []string
	for _, d := range Discover(sys, snap).Accelerators() {
		if d.Kind != GPU {
			continue
		}
		if h := nearest(d, candidates); h != nil {
			pairs = append(pairs, d.Address+"="+h.PCI.Address)
		}
	}
	return strings.Join(pairs, ",")
}

// nearest returns the HCA that is nearest to a device, nil if that is not one HCA, or not known.
func nearest(d *Device, hcas []*rdma.HCA) *rdma.HCA {
	var best *rdma.HCA
	least := rank(Unknown)
	for _, h := range hcas {
		switch r := rank(Between(d, hca(h))); {
		case r < least:
			best, least = h, r
		case r == least:
			best = nil
		}
	}
	return best
}

// rank numbers the distances, nearest first.
func rank(d Distance) int {
	for i, l := range legend {
		if l.Distance == d {
			return i
		}
	}
	return len(legend)
}
