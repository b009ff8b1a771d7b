package health

import "time"

// signal is the result of one observation for a condition.
type signal int8

const (
	unknown signal = iota // the state of the condition does not change
	good
	bad
)

// debounce derives the state of a condition from signals and their times.
type debounce struct {
	faulty    bool      // the condition holds
	confirmed bool      // it holds for at least Config.Down
	flapping  bool      // it holds because of the number of its flaps
	patient   bool      // Config.Sick takes the place of Config.Down, also for the first observation
	since     time.Time // when faulty changed last
	note      string    // the message of the last bad signal, empty for none

	raw      signal
	rawSince time.Time   // the first of the signals equal to the last one
	falls    []time.Time // the last times that it began, a ring of Config.Flaps
	next     int         // the next index in falls
}

// observe takes a signal. A run of equal signals lasts from its first to its last observation. The
// function does not assume a state between two observations.
func (d *debounce) observe(s signal, now time.Time, cfg *Config) {
	first := d.rawSince.IsZero()
	if first || s != d.raw {
		if s == bad && !first {
			d.fall(now, cfg)
		}
		d.raw, d.rawSince = s, now
	}
	if first {
		if d.since.IsZero() {
			d.since = now
		}
		d.faulty = d.faulty || s == bad && !d.patient
	}
	run := now.Sub(d.rawSince)
	switch {
	case s == bad && run >= d.holdAfter(cfg) && (!d.faulty || !d.confirmed):
		d.hold(now)
	case s == good && d.faulty && run >= d.clearAfter(cfg):
		d.faulty, d.confirmed, d.flapping, d.since = false, false, false, now
		clear(d.falls)
	}
}

// hold confirms that the condition holds.
func (d *debounce) hold(now time.Time) {
	if !d.faulty {
		d.since = now
	}
	d.faulty, d.confirmed = true, true
}

// fall records that the condition began. If it began too often, it holds.
func (d *debounce) fall(now time.Time, cfg *Config) {
	if cfg.Flaps == 0 || d.patient {
		return
	}
	if d.falls == nil {
		d.falls = make([]time.Time, cfg.Flaps)
	}
	d.falls[d.next] = now
	d.next = (d.next + 1) % cfg.Flaps
	oldest := d.falls[d.next] // the first of the last Flaps falls, including the new one
	if !oldest.IsZero() && now.Sub(oldest) <= cfg.FlapWindow {
		d.hold(now)
		d.flapping = true
	}
}

// holdAfter returns how long a condition must be present to hold.
func (d *debounce) holdAfter(cfg *Config) time.Duration {
	if d.patient {
		return max(cfg.Down, cfg.Sick)
	}
	return cfg.Down
}

// clearAfter returns how long a condition must be absent to end. The time is shorter for an
// unconfirmed one, because that device was probably still starting.
func (d *debounce) clearAfter(cfg *Config) time.Duration {
	if d.confirmed {
		return cfg.Up
	}
	return min(cfg.Down, cfg.Up)
}

// deadline returns when another signal like the last one would change the state.
func (d *debounce) deadline(cfg *Config) (time.Time, bool) {
	switch {
	case d.raw == bad && !(d.faulty && d.confirmed):
		return d.rawSince.Add(d.holdAfter(cfg)), true
	case d.raw == good && d.faulty:
		return d.rawSince.Add(d.clearAfter(cfg)), true
	}
	return time.Time{}, false
}
