package watch

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Options say how bursts of events become signals. Zero fields have defaults.
type Options struct {
	// Open opens the source of events: OpenUevents.
	Open func() (io.ReadCloser, error)
	// Quiet is how long there must be no event before a signal: 100 ms.
	Quiet time.Duration
	// Longest bounds how long a burst can delay a signal: 1 s.
	Longest time.Duration
	// Retry is the wait before a failed source is opened again: 1 s.
	Retry time.Duration
	// Report hears of a source that failed; nil for nobody.
	Report func(error)
}

func (o *Options) complete() {
	if o.Open == nil {
		o.Open = OpenUevents
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Quiet, 100 * time.Millisecond}, {&o.Longest, time.Second}, {&o.Retry, time.Second}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
}

// Signals returns a channel that receives a value each time the host's RDMA devices
// should be looked at. A signal that nobody has taken yet stands for later ones
// too. The channel is closed when ctx ends. The first signal comes at once, as
// nothing is known of the time before.
func Signals(ctx context.Context, o Options) <-chan struct{} {
	o.complete()
	events := make(chan struct{}, 1)
	go func() {
		defer close(events)
		o.receive(ctx, events)
	}()
	signals := make(chan struct{}, 1)
	go func() {
		defer close(signals)
		o.debounce(events, signals)
	}()
	return signals
}

// notify makes sure that a value is waiting in c.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// receive puts relevant events into the channel, and a value each time some may
// have been missed, until ctx ends.
func (o *Options) receive(ctx context.Context, events chan struct{}) {
	for ctx.Err() == nil {
		source, err := o.Open()
		notify(events) // what happened while nobody listened
		if err == nil {
			stop := context.AfterFunc(ctx, func() { source.Close() })
			err = readAll(source, events)
			stop()
			source.Close()
		}
		if ctx.Err() != nil {
			return
		}
		o.Report(err)
		select {
		case <-ctx.Done():
		case <-time.After(o.Retry):
		}
	}
}

// maxMessage is more than a uevent is long (UEVENT_BUFFER_SIZE is 2048).
const maxMessage = 8192

// readAll reads a source until it fails. An overflow is not the end of it.
func readAll(source io.Reader, events chan struct{}) error {
	buf := make([]byte, maxMessage)
	for {
		n, err := source.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			notify(events)
		case err != nil:
			return err
		default:
			if u, ok := ParseUevent(buf[:n]); ok && u.Relevant() {
				notify(events)
			}
		}
	}
}

// debounce turns bursts of events into single signals.
func (o *Options) debounce(events <-chan struct{}, signals chan struct{}) {
	first := true
	for range events {
		if !first {
			o.waitQuiet(events)
		}
		first = false
		notify(signals)
	}
}

// waitQuiet returns when there was no event for a while, or when the burst has
// lasted too long.
func (o *Options) waitQuiet(events <-chan struct{}) {
	longest := time.NewTimer(o.Longest)
	defer longest.Stop()
	for {
		quiet := time.NewTimer(o.Quiet)
		select {
		case _, ok := <-events:
			quiet.Stop()
			if !ok {
				return
			}
		case <-quiet.C:
			return
		case <-longest.C:
			quiet.Stop()
			return
		}
	}
}
