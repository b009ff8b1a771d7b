package health

import "time"

// maxFlaps bounds what is remembered of flaps.
const maxFlaps = 16

// signal is what one observation says of a condition.
type signal int8

const (
	unknown signal = iota // nothing: the fault stays as it is
	good
	bad
)

// debounce decides from signals and their times whether a condition holds.
type debounce struct {
	faulty    bool      // the condition holds
	confirmed bool      // and has been seen for long enough
	flapping  bool      // and for the number of its flaps
	since     time.Time // it holds, or does not, since then

	raw      signal
	rawSince time.Time   // the first of the signals equal to the last one
	falls    []time.Time // when it last came, a ring of Config.Flaps
	next     int         // where the next one goes
}

// observe takes a signal. A run of equal signals counts once it was seen at both
// ends, so that what happened between two looks is not guessed.
func (d *debounce) observe(s signal, now time.Time, cfg *Config) {
	first := d.rawSince.IsZero()
	if first || s != d.raw {
		if s == bad && !first {
			d.fall(now, cfg)
		}
		d.raw, d.rawSince = s, now
	}
	if first {
		d.since = now
		d.faulty = d.faulty || s == bad
	}
	run := now.Sub(d.rawSince)
	switch {
	case s == bad && run >= cfg.Down && (!d.faulty || !d.confirmed):
		d.hold(now)
	case s == good && d.faulty && run >= d.clearAfter(cfg):
		d.faulty, d.confirmed, d.flapping, d.since = false, false, false, now
		clear(d.falls)
	}
}

// hold makes the condition hold beyond doubt.
func (d *debounce) hold(now time.Time) {
	if !d.faulty {
		d.since = now
	}
	d.faulty, d.confirmed = true, true
}

// fall remembers that the condition came, and makes it hold if it comes too often.
func (d *debounce) fall(now time.Time, cfg *Config) {
	if cfg.Flaps == 0 {
		return
	}
	if d.falls == nil {
		d.falls = make([]time.Time, cfg.Flaps)
	}
	d.falls[d.next] = now
	d.next = (d.next + 1) % cfg.Flaps
	oldest := d.falls[d.next] // with the one just written, the last Flaps falls
	if !oldest.IsZero() && now.Sub(oldest) <= cfg.FlapWindow {
		d.hold(now)
		d.flapping = true
	}
}

// clearAfter is how long a condition must be gone to end. One that was never
// confirmed is that of a device which was just starting.
func (d *debounce) clearAfter(cfg *Config) time.Duration {
	if d.confirmed {
		return cfg.Up
	}
	return min(cfg.Down, cfg.Up)
}

// deadline is when an observation like the last one would change something.
func (d *debounce) deadline(cfg *Config) (time.Time, bool) {
	switch {
	case d.raw == bad && !(d.faulty && d.confirmed):
		return d.rawSince.Add(cfg.Down), true
	case d.raw == good && d.faulty:
		return d.rawSince.Add(d.clearAfter(cfg)), true
	}
	return time.Time{}, false
}
