package health

import (
	"errors"
	"fmt"
	"time"
)

// Config says how long things must be before they count.
type Config struct {
	// Down is how long a condition must be seen before it holds.
	Down time.Duration
	// Up is how long it must be gone before it ends.
	Up time.Duration
	// Flaps is how often a condition may come within FlapWindow before it holds
	// whatever the times in between; 0 for no limit.
	Flaps      int
	FlapWindow time.Duration
	// Stale is the age from which an observation says nothing any more.
	Stale time.Duration
	// Thresholds say which error counters may rise how fast.
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

// Validate returns what does not make sense.
func (c *Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"down", c.Down}, {"up", c.Up}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("health: %s is %v: want 0 or more", d.name, d.value))
		}
	}
	if c.Flaps < 0 || c.Flaps > maxFlaps {
		errs = append(errs, fmt.Errorf("health: flaps is %d: want 0 to %d", c.Flaps, maxFlaps))
	}
	if c.Flaps > 0 && c.FlapWindow <= 0 {
		errs = append(errs, fmt.Errorf("health: flap window is %v: want more than 0, or flaps 0", c.FlapWindow))
	}
	if c.Stale <= 0 {
		errs = append(errs, fmt.Errorf("health: stale is %v: want more than 0", c.Stale))
	}
	for _, t := range c.Thresholds {
		errs = append(errs, t.validate())
	}
	return errors.Join(errs...)
}
