package health

import (
	"fmt"
	"time"
)

// Threshold is how much an error counter of a port may rise.
type Threshold struct {
	// Counter is the file's name in ports/<n>/counters or ports/<n>/hw_counters.
	Counter string
	// Count in Per is the most that is taken for normal.
	Count float64
	Per   time.Duration
	// Means says what is wrong, for people.
	Means string
}

// DefaultThresholds returns limits for the counters that tell a bad cable or
// transceiver from a good one (IBTA, PortCounters; ibqueryerrors(8) has comparable
// totals). Those that congestion makes rise, such as port_xmit_wait, are no sign of
// a fault, and stand for no limit. Most of these counters are 4 to 16 bits wide and
// stay at their maximum until somebody clears them; then they tell nothing.
func DefaultThresholds() []Threshold {
	const cable = "a bad cable, connector or transceiver"
	return []Threshold{
		{"link_downed", 3, time.Hour, "the link fails again and again: " + cable + ", or the other end"},
		{"link_error_recovery", 10, time.Hour, "the link is trained anew: " + cable},
		{"symbol_error", 120, time.Hour, cable},
		{"port_rcv_errors", 10, time.Hour, "packets arrive damaged: " + cable},
		{"local_link_integrity_errors", 10, time.Hour, cable},
		{"excessive_buffer_overrun_errors", 10, time.Hour, "the other end sends more than it was granted: its firmware, or a damaged link"},
	}
}

func (t Threshold) validate() error {
	if t.Counter == "" || t.Count <= 0 || t.Per <= 0 {
		return fmt.Errorf("health: threshold of counter %q is %v in %v: want a name, and more than 0 of both", t.Counter, t.Count, t.Per)
	}
	return nil
}

// note says that a counter rises too fast.
func (t Threshold) note() string {
	return fmt.Sprintf("counter %s rises by more than %g in %s: %s", t.Counter, t.Count, span(t.Per), t.Means)
}

// bucket measures how fast a counter rises: what it rises by goes in, and leaks out
// at the rate that is taken for normal. It is over while more is in than Count.
type bucket struct {
	level float64
	last  uint64
	at    time.Time // of last; zero before the first reading
}

// fill takes a reading and reports whether the bucket is over.
func (b *bucket) fill(value uint64, now time.Time, t *Threshold) bool {
	if !b.at.IsZero() {
		rise := value - b.last
		if value < b.last {
			rise = value // cleared by somebody, or by a reload of the driver
		}
		leak := t.Count * float64(now.Sub(b.at)) / float64(t.Per)
		// What is above twice the count would keep a port in doubt for days.
		b.level = min(max(0, b.level-leak)+float64(rise), 2*t.Count)
	}
	b.last, b.at = value, now
	return b.level > t.Count
}
