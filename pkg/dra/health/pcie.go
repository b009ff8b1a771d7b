package health

import (
	"fmt"
	"strconv"
	"strings"
)

// Link is the state of a PCIe link. It is comparable.
type Link struct {
	MTs   int // the rate of a lane in units of 10^6 transfers a second: 32000
	Lanes int
}

// Capacity is the product of rate and lanes, for comparisons. It ignores the encoding, which differs before PCIe 3.
func (l Link) Capacity() int { return l.MTs * l.Lanes }

// String formats a link as 32x16: GT/s and lanes.
func (l Link) String() string { return gbps(l.MTs) + "x" + strconv.Itoa(l.Lanes) }

// ParseLink parses the form of String.
func ParseLink(s string) (Link, error) {
	rate, lanes, _ := strings.Cut(s, "x")
	gts, err := strconv.ParseFloat(rate, 64)
	n, errLanes := strconv.Atoi(lanes)
	if err != nil || errLanes != nil || !(gts >= 1 && gts < 1000) || n < 1 || n > 32 {
		return Link{}, fmt.Errorf("want GT/s and lanes, as 32x16, not %q", s)
	}
	return Link{int(gts * 1000), n}, nil
}

// PCIe is what was read of the PCIe links of an HCA.
type PCIe struct {
	PCIeLink
	// Errors are the sums of the errors at both ends of the HCA's own link, by name: aer_fatal and so on. One that cannot be read is absent.
	Errors map[string]uint64
}

// PCIeLink is the narrowest PCIe link from an HCA up to the root, zero if one of the links cannot be read.
type PCIeLink struct {
	Link Link
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
	const remedy = "seat the card again, or look at riser, slot and firmware"
	switch {
	case now < s.MinPCIe.Capacity():
		return judgement{narrow, bad, fmt.Sprintf("%s, and the policy's minPCIe is %v: %s", is, s.MinPCIe, remedy)}
	case s.peersPCIe > 0 && now < s.peersPCIe:
		return judgement{narrow, bad, fmt.Sprintf("%s, and each other card of rule %s has more: %s", is, s.Peers, remedy)}
	case s.Peers != "" && s.peersPCIe == 0 && s.MinPCIe.Lanes == 0:
		return judgement{narrow, unknown, ""} // the other cards are missing
	}
	return judgement{narrow, good, ""}
}
