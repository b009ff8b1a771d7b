package health

import (
	"fmt"
	"time"
)

// Threshold limits how fast an error counter of a port may rise.
type Threshold struct {
	// Counter is the file's name in ports/<n>/counters or ports/<n>/hw_counters, or the name of what an interface counts.
	Counter string
	// Count in Per is the highest normal rate.
	Count float64
	Per   time.Duration
	// Means is the fault, for people.
	Means string
}

// DefaultThresholds returns limits for the counters that a bad cable or transceiver makes
// rise (IBTA, PortCounters; ibqueryerrors(8) has comparable totals). It omits counters
// that congestion makes rise, such as port_xmit_wait, because they show no fault. Most of
// these counters are 4 to 16 bits wide and stay at their maximum until somebody clears
// them. A counter at its maximum shows no further errors.
func DefaultThresholds() []Threshold {
	const cable = "a bad cable, connector or transceiver"
	return []Threshold{
		{"link_downed", 3, time.Hour, "the link fails again and again: " + cable + ", or the other end"},
		{"link_error_recovery", 10, time.Hour, "the link is trained again and again: " + cable},
		{"symbol_error", 120, time.Hour, cable},
		{"port_rcv_errors", 10, time.Hour, "packets arrive damaged: " + cable},
		{"local_link_integrity_errors", 10, time.Hour, cable},
		{"excessive_buffer_overrun_errors", 10, time.Hour,
			"the other end sends more than its credits allow: check its firmware, or the link for damage"},
	}
}

// The counters of an Ethernet interface's own link.
const (
	// FECUncorrectable are blocks that forward error correction could not correct (ETHTOOL_A_FEC_STAT_UNCORR).
	FECUncorrectable = "fec_uncorrectable_blocks"
	// PHYSymbolErrors are symbol errors of a link that is up (IEEE 802.3 30.3.2.1.5 aSymbolErrorDuringCarrier).
	PHYSymbolErrors = "phy_symbol_errors"
)

// EthernetThresholds returns limits for what an Ethernet interface counts of its own link. No packet and no program
// makes these counters rise.
//
// IEEE 802.3 allows a 100GBASE-R link with FEC to lose 6.2 of 10^10 frames (clause 91), which is 39 blocks of 5,280
// bits an hour; newer rates may lose fewer. It allows one wrong bit in 10^12 up to 100 Gb/s, which is 360 an hour. The
// limits are three and ten times as high.
func EthernetThresholds() []Threshold {
	const cable = "a bad cable, connector or transceiver"
	return []Threshold{
		{FECUncorrectable, 120, time.Hour, "packets are lost on the link: " + cable},
		{PHYSymbolErrors, 3600, time.Hour, cable},
	}
}

// ofFalls reports whether the counter counts falls of the link itself.
func (t Threshold) ofFalls() bool {
	return t.Counter == "link_downed" || t.Counter == "link_error_recovery"
}

// seatRemedy is for a PCIe link that is narrow or makes errors.
const seatRemedy = "seat the card again, or look at riser, slot and firmware"

// PCIeThresholds returns limits for the errors of a PCIe link. An uncorrectable error of the link itself never
// happens on a link that is well. The standard allows one wrong bit in 10^12 (PCI Express Base Specification,
// receiver bit error ratio), which is one error in two seconds at 32 GT/s and 16 lanes.
func PCIeThresholds() []Threshold {
	return []Threshold{
		{"aer_fatal", 0.5, 12 * time.Hour, "the PCIe link of the card failed: " + seatRemedy},
		{"aer_nonfatal", 0.5, 12 * time.Hour, "the PCIe link of the card lost data: " + seatRemedy},
		{"aer_correctable", 3600, time.Hour, "the PCIe link of the card repeats what it sends: " + seatRemedy},
	}
}

// note is the message for a counter that rises too fast.
func (t Threshold) note() string {
	if t.Count < 1 {
		return fmt.Sprintf("counter %s rose within %s: %s", t.Counter, span(t.Per), t.Means)
	}
	return fmt.Sprintf("counter %s rises by more than %g in %s: %s", t.Counter, t.Count, span(t.Per), t.Means)
}

// bucket measures how fast a counter rises. Each rise fills it, and it drains at the normal
// rate. It overflows while its level is above Count.
type bucket struct {
	level float64
	last  uint64
	at    time.Time // of last; zero before the first reading
}

// fill adds a reading and reports whether the bucket overflows. The errors of a settling link do not count.
func (b *bucket) fill(value uint64, settling bool, now time.Time, t *Threshold) bool {
	if !b.at.IsZero() {
		rise := value - b.last
		switch {
		case settling:
			rise = 0
		case value < b.last:
			rise = value // the counter was cleared, or the driver was reloaded
		}
		leak := t.Count * float64(now.Sub(b.at)) / float64(t.Per)
		// A higher level would keep the condition for days.
		b.level = min(max(0, b.level-leak)+float64(rise), 2*t.Count)
	}
	b.last, b.at = value, now
	return b.level > t.Count
}
