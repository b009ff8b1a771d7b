package health

import (
	"fmt"
	"strconv"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Expected is what the policy expects of an HCA.
type Expected struct {
	// Unused says that nobody has cabled the HCA: that its ports are down is no alert.
	Unused bool
	// MinRateMbps is the lowest good rate, 0 if the policy has none.
	MinRateMbps int
	// MinPCIe is the lowest good state of the PCIe links up to the root, zero if the policy has none.
	MinPCIe rdma.PCIeLink
	// Peers is the rule whose cards should be alike, "" for none: a rule with rails.
	Peers string
	// Alike says that the rule has all of its cards, so that they can be compared.
	Alike bool
}

// minPeers is how many other cards of a rule must have one rate before a lower one is a fault. A comparison of fewer
// would blame a card for a network with two rates.
const minPeers = 3

// standard is what an HCA is compared with in one observation.
type standard struct {
	Expected
	known bool // what is expected is known
	// peersMbps is the lowest rate of the other cards of the rule, 0 if they cannot be compared.
	peersMbps int
	pcie      PCIeLink
	peersPCIe int // the lowest capacity of the PCIe links of the other cards, 0 if they cannot be compared
}

// standards returns what the HCAs with an expectation are compared with, by name. It has none for VFs and SFs: they
// have the link of their card.
func (o *Observation) standards() map[string]standard {
	if o.Expected == nil {
		return nil
	}
	rates, links := peers{}, peers{}
	out := make(map[string]standard, len(o.Expected))
	for i := range o.Snapshot.HCAs {
		h := &o.Snapshot.HCAs[i]
		if isPart(h) {
			continue
		}
		s := standard{Expected: o.Expected[h.Name], known: true, pcie: o.PCIe[h.Name].PCIeLink}
		out[h.Name] = s
		if s.Alike && s.Peers != "" {
			rates.add(s.Peers, h.Name, o.activeRate(h))
			links.add(s.Peers, h.Name, s.pcie.Link.Capacity())
		}
	}
	for name, s := range out {
		s.peersMbps, s.peersPCIe = lowestOfOthers(rates[s.Peers], name), lowestOfOthers(links[s.Peers], name)
		out[name] = s
	}
	return out
}

// peers are values of cards, by rule and HCA.
type peers map[string]map[string]int

// add adds a value, unless it is 0: unknown.
func (p peers) add(rule, hca string, value int) {
	if value == 0 {
		return
	}
	if p[rule] == nil {
		p[rule] = map[string]int{}
	}
	p[rule][hca] = value
}

// lowestOfOthers returns the lowest value of all but one, 0 if fewer than minPeers of them are equal.
func lowestOfOthers(values map[string]int, but string) int {
	lowest, equal, alike := 0, map[int]int{}, false
	for name, value := range values {
		if name == but {
			continue
		}
		equal[value]++
		alike = alike || equal[value] >= minPeers
		if lowest == 0 || value < lowest {
			lowest = value
		}
	}
	if !alike {
		return 0
	}
	return lowest
}

// isPart reports whether an HCA has no link of its own.
func isPart(h *rdma.HCA) bool { return h.Function == rdma.VF || h.Function == rdma.SF }

// activeRate returns the highest rate of an HCA's ACTIVE ports, 0 if it is unknown. A port that is not ACTIVE has a
// rate that means nothing, and the second port of a card may belong to a slower network. A pod may have set the rate of
// an interface that it has.
func (o *Observation) activeRate(h *rdma.HCA) int {
	rate := 0
	for p := range h.OwnPorts() {
		if o.away(h, p) {
			return 0
		}
		if p.State == rdma.PortActive {
			rate = max(rate, p.RateMbps)
		}
	}
	return rate
}

// judgeRate judges the rate of an HCA by the members of its LAG, by its rule, and by the other cards of the rule. It
// never judges by the card: a fast card on a slower network is well.
func judgeRate(h *rdma.HCA, s standard, o *Observation) judgement {
	slow := probe{PortSlow, 0}
	rate := o.activeRate(h)
	switch {
	case rate > 0 && rate < h.Port1().ConfiguredMbps():
		return judgement{slow, bad, lagNote(h.Port1(), rate)}
	case !s.known, rate == 0:
		return judgement{slow, unknown, ""}
	case rate < s.MinRateMbps:
		return judgement{slow, bad, fmt.Sprintf("the rate is %s Gb/s, and the policy's minRateGbps is %s: %s",
			gbps(rate), gbps(s.MinRateMbps), slowRemedy)}
	case s.peersMbps > 0 && rate < s.peersMbps:
		return judgement{slow, bad, fmt.Sprintf("the rate is %s Gb/s, and each other card of rule %s has %s or more: %s",
			gbps(rate), s.Peers, gbps(s.peersMbps), slowRemedy)}
	case s.Peers != "" && s.peersMbps == 0 && s.MinRateMbps == 0:
		return judgement{slow, unknown, ""} // the other cards are missing or down
	}
	return judgement{slow, good, ""}
}

// lagNote says why a LAG carries less than its members could.
func lagNote(p *rdma.Port, rate int) string {
	why := "not all members carry traffic: look at LACP on the switch"
	if p.LAG.Slow != "" {
		why = "no link, or a slower one, on " + text.Terminal(p.LAG.Slow) + ": is it up (ip link)? Else " + slowRemedy
	}
	return fmt.Sprintf("the rate of %s is %s Gb/s instead of %s: %s",
		text.Terminal(p.Netdev), gbps(rate), gbps(p.ConfiguredMbps()), why)
}

const slowRemedy = "look at cable, transceiver and the speed of the switch port"

// gbps formats a rate: 400, 2.5.
func gbps(mbps int) string { return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) }
