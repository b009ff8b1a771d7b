package policy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// application is the state of one Apply.
type application struct {
	config   *Config
	state    State
	snap     *rdma.Snapshot
	counters bool // devices may exclude each other by counters
	result   Result
	index    map[string]int // of decisions, by the HCA's name
}

// Apply decides what a host publishes. It does not keep the snapshot, but
// the result points into it.
func (c *Config) Apply(snap *rdma.Snapshot, state State) Result {
	counters := c.partitioning && !state.NoCounters
	a := &application{
		config: c, state: state, snap: snap, counters: counters, index: map[string]int{},
		result: Result{NetnsMode: snap.NetnsMode, Options: resources.Options{
			Counters: counters, Consumable: !state.NoConsumable, NoTaints: state.NoTaints, FewTaints: state.FewTaints,
		}},
	}
	for i := range snap.HCAs {
		a.result.Decisions = append(a.result.Decisions, a.decide(&snap.HCAs[i]))
		a.index[snap.HCAs[i].Name] = i
	}
	a.withholdTainted()
	a.withoutCounters()
	a.keepHeld()
	a.separateParts()
	a.separateHeld()
	a.group()
	a.offer()
	return a.result
}

// errNetns is the reason why a host offers nothing to new claims.
const errNetns = "the host's RDMA network namespace mode is exclusive, " +
	"in which a pod with a network of its own cannot open an HCA: " +
	"let the driver move HCAs (network.enabled), or set options ib_core netns_mode=1 in /etc/modprobe.d and reboot"

// The reasons against a rule's form on a host where HCAs move with pods.
const (
	errFixed     = "the host's RDMA network namespace mode is exclusive, and the HCA cannot follow a pod: %s"
	errOneAtOnce = "the host's RDMA network namespace mode is exclusive, " +
		"in which an HCA is in one pod at a time, and no shares of it can be had"
)

// decide applies the rules to one HCA.
func (a *application) decide(h *rdma.HCA) Decision {
	d := Decision{HCA: h, Wanted: resources.FormExclusive}
	for _, r := range a.config.rules {
		matches, err := r.selectors.match(h, a.snap.NetnsMode)
		if err != nil {
			// It is unknown whether the HCA may be published.
			d.Rule, d.Wanted = r.name, resources.FormNone
			d.note("rule %s, %s", r.name, err)
			break
		}
		if matches {
			d.Rule, d.Wanted, d.rule, d.Marks, d.VLAN = r.name, r.form, r, r.marks, r.vlan
			if r.form == resources.FormNone {
				d.note("rule %s says so", r.name)
			}
			break
		}
	}
	d.Form = d.Wanted
	reason := notOfHost(h)
	if d.foreign = reason != "" && (d.rule == nil || !d.rule.selectors.askForSoftware(h, a.snap.NetnsMode)); d.foreign {
		d.withhold("%s; a rule that selects function == \"virtual\" offers it all the same", reason)
	}
	if err := h.Unusable(); err != nil {
		d.withhold("%s", err)
	}
	if a.snap.NetnsMode == rdma.NetnsExclusive {
		a.withholdFixed(&d)
	}
	return d
}

// notOfHost returns why a software HCA may not be the host's, "" if RDMA netlink says that it is. Hardware is the host's.
func notOfHost(h *rdma.HCA) string {
	switch {
	case h.Function != rdma.Virtual:
		return ""
	case h.Software == nil:
		return "it is a software HCA, and RDMA netlink did not say whether its network interface is the host's"
	case h.Foreign():
		return "it is a software HCA, and its network interface is in another network namespace: any pod with NET_ADMIN " +
			"can make one"
	}
	return ""
}

// withholdFixed withholds an HCA that cannot move into the network namespace of a pod.
func (a *application) withholdFixed(d *Decision) {
	switch reason := a.state.Fixed[d.HCA.Name]; {
	case a.state.Fixed == nil:
		d.withhold("%s", errNetns)
	case d.Form == resources.FormNone:
	case reason != "":
		d.withhold(errFixed, reason)
	case d.Form == resources.FormShared:
		d.withhold("%s", errOneAtOnce)
	case d.Form == resources.FormBoth:
		d.Form = resources.FormExclusive
		d.note("%s", errOneAtOnce)
	}
}

// note adds a reason.
func (d *Decision) note(format string, args ...any) {
	if d.Reason != "" {
		d.Reason += "; "
	}
	d.Reason += fmt.Sprintf(format, args...)
}

// withhold leaves an HCA unpublished. The reason replaces all others.
func (d *Decision) withhold(format string, args ...any) {
	d.Form, d.Reason = resources.FormNone, fmt.Sprintf(format, args...)
}

// usable reports whether a container can use the HCA. In exclusive network namespace
// mode this holds also for an HCA that no new claim gets, because a claim may hold it already.
func (a *application) usable(d *Decision) bool {
	return d.HCA.Unusable() == nil
}

// withoutCounters publishes only shares if nothing would separate them from the exclusive
// device.
func (a *application) withoutCounters() {
	for i := range a.result.Decisions {
		if d := &a.result.Decisions[i]; d.Form == resources.FormBoth && !a.counters {
			d.Form = resources.FormShared
			d.note("shared only: the API server has no counters (feature gate DRAPartitionableDevices), " +
				"without which nothing keeps an exclusive HCA and its shares apart")
		}
	}
}

// keepHeld publishes an HCA in the form of its claims until they end.
func (a *application) keepHeld() {
	for i := range a.result.Decisions {
		d := &a.result.Decisions[i]
		held := a.state.Held[d.HCA.Name].form()
		if held == resources.FormNone || held == d.Form || d.Form == resources.FormBoth || !a.usable(d) {
			continue
		}
		d.note("claims hold it as %s: it stays so for them, and no new claim gets it, until they end", held)
		d.Form, d.Offer.Draining = held, true
	}
}

// separateParts publishes either the exclusive PF or the VFs of a card if the policy asks for
// counters and the API server has none.
func (a *application) separateParts() {
	if !a.config.partitioning || a.counters {
		return
	}
	for i := range a.result.Decisions {
		d := &a.result.Decisions[i]
		if !isCard(d.HCA) || !d.Form.Exclusive() {
			continue
		}
		for _, part := range a.parts(d.HCA) {
			if part.Form == resources.FormNone {
				continue
			}
			if !a.state.Held[d.HCA.Name].Exclusive {
				d.withhold("its VFs or SFs are published instead: the API server has no counters " +
					"(feature gate DRAPartitionableDevices), without which nothing keeps them apart")
				break
			}
			if a.state.Held[part.HCA.Name] == (Held{}) {
				part.withhold("a claim holds %s, the whole card, and the API server has no counters to keep them apart",
					d.HCA.Name)
			}
		}
	}
}

// isCard reports whether an HCA may have VFs and SFs.
func isCard(h *rdma.HCA) bool { return h.PF == "" }

// parts returns the VFs and SFs of a card.
func (a *application) parts(card *rdma.HCA) []*Decision {
	var out []*Decision
	for i := range a.result.Decisions {
		if d := &a.result.Decisions[i]; !isCard(d.HCA) && d.HCA.Family() == card.Family() {
			out = append(out, d)
		}
	}
	return out
}

// separateHeld removes cards from the counters if claims already hold devices that exclude each
// other, from a time without counters. A negative counter would stop all allocations from the
// node's pool. No new claim gets a device of such a card.
func (a *application) separateHeld() {
	if !a.counters {
		return
	}
	var names []string
	for _, group := range a.state.HeldGroups {
		names = append(names, group...)
	}
	grouped := a.withCards(a.hcas(names))
	overlaps := map[string]bool{} // families
	for i := range a.result.Decisions {
		d := &a.result.Decisions[i]
		if a.state.Held[d.HCA.Name].Exclusive && (grouped[d.HCA.Name] || a.heldBeside(d)) {
			overlaps[d.HCA.Family()] = true
		}
	}
	for i := range a.result.Decisions {
		d := &a.result.Decisions[i]
		if !overlaps[d.HCA.Family()] || d.Form == resources.FormNone {
			continue
		}
		d.withhold("claims hold devices of this card that exclude each other: " +
			"none of it is given to new claims until they end")
		if held := a.state.Held[d.HCA.Name].form(); held != resources.FormNone {
			d.Form, d.Offer.Draining, d.Offer.Unlocked = held, true, true
		}
	}
}

// heldBeside reports whether claims hold shares or parts of an HCA in addition to the HCA.
func (a *application) heldBeside(d *Decision) bool {
	if a.state.Held[d.HCA.Name].Shared {
		return true
	}
	if isCard(d.HCA) {
		for _, part := range a.parts(d.HCA) {
			if a.state.Held[part.HCA.Name] != (Held{}) {
				return true
			}
		}
	}
	return false
}

// offer completes the offers.
func (a *application) offer() {
	numbers := a.cardNumbers()
	for i := range a.result.Decisions {
		d := &a.result.Decisions[i]
		d.Offer.HCA, d.Offer.Form, d.Offer.Taints = d.HCA, d.Form, a.state.Taints[d.HCA.Name]
		d.Expected = d.rule.expected(numbers.numberOf(d) >= 0)
		capacity := resources.Capacity{Shares: defaultShares, DefaultShares: 1} // for shares without a rule
		if d.rule != nil {
			d.Offer.Attributes = d.rule.siteAttributes(d.HCA, numbers.numberOf(d))
			d.IPAM = d.rule.ipamOfHCA(numbers.numberOf(d))
			if d.rule.form.Shared() {
				capacity = d.rule.capacity
			}
		}
		a.setLeaf(d)
		if capacity.Bandwidth == nil {
			capacity.Bandwidth = rate(d.HCA)
		}
		d.Offer.Capacity = capacity
	}
	a.findUnapplied(numbers)
}

// rate returns the bandwidth of an HCA's first port, nil if it is unknown.
func rate(h *rdma.HCA) *resource.Quantity {
	p := h.Port1()
	if p == nil || p.ConfiguredMbps() == 0 {
		return nil
	}
	return resource.NewQuantity(int64(p.ConfiguredMbps())*resources.BandwidthStep, resource.DecimalSI)
}

// numbers are the numbers of cards, by rule and family.
type numbers map[*rule]map[string]int

// cardNumbers numbers the cards of each rule with rails, in PCI order. It gives no
// numbers unless the count is right, because a missing card would move the cards after it to
// other rails.
func (a *application) cardNumbers() numbers {
	out := numbers{}
	for _, d := range a.result.Decisions {
		if d.rule == nil || d.rule.rails == 0 || d.foreign { // a pod must not change the number of cards
			continue
		}
		if out[d.rule] == nil {
			out[d.rule] = map[string]int{}
		}
		if _, ok := out[d.rule][d.HCA.Family()]; !ok {
			out[d.rule][d.HCA.Family()] = len(out[d.rule])
		}
	}
	for i := range a.result.Decisions {
		d := &a.result.Decisions[i]
		if d.rule != nil && d.rule.rails > 0 && !d.foreign && len(out[d.rule]) != int(d.rule.rails) {
			d.note("no attribute rail: rule %s numbers %d cards, and it matches %d",
				d.rule.name, d.rule.rails, len(out[d.rule]))
		}
	}
	return out
}

// numberOf returns the number of an HCA's card, -1 without a number.
func (n numbers) numberOf(d *Decision) int {
	if d.rule == nil || d.rule.rails == 0 || d.foreign || len(n[d.rule]) != int(d.rule.rails) {
		return -1
	}
	return n[d.rule][d.HCA.Family()]
}
