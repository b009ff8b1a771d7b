package health

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// PCIe is what was read of the PCIe links of an HCA.
type PCIe struct {
	PCIeLink
	// Errors are the sums of the errors at both ends of the HCA's own link, by name: aer_fatal and so on. One that
	// cannot be read is absent.
	Errors map[string]uint64
}

// PCIeLink is the narrowest PCIe link from an HCA up to the root, zero if one of the links cannot be read.
type PCIeLink struct {
	Link rdma.PCIeLink
	At   string // the address of the device at its lower end
}

// judgePCIe judges the PCIe links of an HCA by its rule, and by the other cards of the rule. It never judges by what
// card and slot can do: no file knows how many lanes of a slot are wired.
func judgePCIe(s standard) judgement {
	narrow, now := probe{PCIeDegraded, 0}, s.pcie.Link.Capacity()
	if !s.known || now == 0 {
		return judgement{narrow, unknown, ""}
	}
	is := fmt.Sprintf("the PCIe link of %s has %v (GT/s x lanes)", s.pcie.At, s.pcie.Link)
	switch {
	case now < s.MinPCIe.Capacity():
		return judgement{narrow, bad, fmt.Sprintf("%s, and the policy's minPCIe is %v: %s", is, s.MinPCIe, seatRemedy)}
	case s.peersPCIe > 0 && now < s.peersPCIe:
		return judgement{narrow, bad, fmt.Sprintf("%s, and each other card of rule %s has more: %s", is, s.Peers, seatRemedy)}
	case s.Peers != "" && s.peersPCIe == 0 && s.MinPCIe.Lanes == 0:
		return judgement{narrow, unknown, ""} // the other cards are missing
	}
	return judgement{narrow, good, ""}
}
