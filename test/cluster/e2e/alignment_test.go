package e2e

import (
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestAlignment: the scheduler aligns every claim that can be aligned. Eight GPUs of
// the host have an HCA of their own below their root and switch. Package gates counts
// the claims by root and with a fallback; test/gpudriver counts all on all hosts.
func TestAlignment(t *testing.T) {
	n := bed.Namespace(t)
	n.Align("aligned-root", 1, 1, bed.SameRoot)
	n.Align("aligned-switch", 8, 8, bed.SameSwitch)
	n.Align("aligned-fallback", 1, 1, bed.SameRoot)
	n.Align("aligned-pairs", 2, 8, bed.SameRoot)
}

// TestAlignmentDataDirect: on a board whose PFs and GPUs have no PCIe root in common, every GPU gets the HCA of the
// card whose DMA function is beside it.
func TestAlignmentDataDirect(t *testing.T) {
	needs.Long(t, "TestBlackwellBoards counts the same claims by the scheduler's allocator, and TestAlignment runs the scheduler")
	bed.SwitchHost(t, "gb300-cx8", "")
	bed.SwitchGPUs(t)
	n := bed.Namespace(t)
	// By the UUID in the VPD of PF and DMA function; the domains are those of the modelled board.
	card := map[string]string{"0009": "0000", "0008": "0002", "0019": "0010", "0018": "0012"}
	n.Align("aligned-root", 4, 4, func(_ *testing.T, gpu, hca string) bool {
		return card[domainOf(gpu)] == domainOf(hca)
	})
}

// domainOf returns the PCI domain in the name of a device: pci-DOMAIN-BUS-DEVICE-FUNCTION.
func domainOf(device string) string {
	parts := strings.Split(device, "-")
	return parts[max(0, len(parts)-4)]
}
