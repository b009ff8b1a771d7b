package health

import "time"

// Config holds the times and limits of a [Model].
type Config struct {
	// Down is how long the model must see a condition before it holds.
	Down time.Duration
	// Up is how long a condition must be absent before it ends.
	Up time.Duration
	// Flaps is how often a condition may begin within FlapWindow. Then it holds, however short
	// each time was. 0 means no limit.
	Flaps      int
	FlapWindow time.Duration
	// Sick is how long the model must see that a working link is not as it should be (see patient). The reading of
	// such a fault may be of a link that is just coming up.
	Sick time.Duration
	// Falls is in how many incidents a port may fall within FallWindow. Then it flaps. 0 means no limit.
	Falls      int
	FallWindow time.Duration
	// Incident is how long falls of a port count as one: a switch that starts takes its links down several times.
	Incident time.Duration
	// Stale is the age at which an observation becomes invalid.
	Stale time.Duration
	// Thresholds limit how fast error counters may rise.
	Thresholds []Threshold
	// Ethernet limits how fast the errors that an interface counts of its link may rise.
	Ethernet []Threshold
	// PCIe limits how fast the errors of a PCIe link may rise.
	PCIe []Threshold
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Down: 5 * time.Second, Up: 30 * time.Second,
		Flaps: 3, FlapWindow: time.Minute,
		Sick:  2 * time.Minute,
		Falls: 3, FallWindow: 24 * time.Hour, Incident: 10 * time.Minute,
		Stale:      3 * time.Minute,
		Thresholds: DefaultThresholds(), Ethernet: EthernetThresholds(), PCIe: PCIeThresholds(),
	}
}
