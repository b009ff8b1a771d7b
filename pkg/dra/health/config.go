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
	// Stale is the age at which an observation becomes invalid.
	Stale time.Duration
	// Thresholds limit how fast error counters may rise.
	Thresholds []Threshold
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Down: 5 * time.Second, Up: 30 * time.Second,
		Flaps: 3, FlapWindow: time.Minute,
		Stale:      3 * time.Minute,
		Thresholds: DefaultThresholds(),
	}
}
