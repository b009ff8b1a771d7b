package watch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Config sets the sources of events, and how bursts of events become signals. Zero fields have defaults.
type Config struct {
	// Uevents, Links and RDMA open the sources of events, which are sockets of the kernel. Each Read must return one
	// datagram. Close must end a Read in progress.
	Uevents, Links, RDMA func() (io.ReadCloser, error)
	// Quiet is how long there must be no event before a signal: 2 ms. It doubles with each signal whose first event
	// came within Storm of the previous signal.
	Quiet time.Duration
	// Storm is the longest quiet time while events continue: 50 ms.
	Storm time.Duration
	// Longest is the longest time that a burst can delay a signal: 1 s.
	Longest time.Duration
	// Again is how long after a signal about HCAs and interfaces a second signal names them again: 1 s. The kernel
	// makes the GIDs of a port in the background, some time after it has reported the address. A negative value
	// disables the second signal.
	Again time.Duration
	// Retry is the shortest wait before opening a failed source again: 1 s.
	Retry time.Duration
	// Report is called for each failure of a source; nil for no reports. It must be safe for concurrent use.
	Report func(error)
}

func (c *Config) complete() {
	if c.Uevents == nil {
		c.Uevents = OpenUevents
	}
	if c.Links == nil {
		c.Links = openLinks
	}
	if c.RDMA == nil {
		c.RDMA = openRDMA
	}
	if c.Report == nil {
		c.Report = func(error) {}
	}
	c.Quiet = cmp.Or(c.Quiet, 2*time.Millisecond)
	c.Storm = cmp.Or(c.Storm, 50*time.Millisecond)
	c.Longest = cmp.Or(c.Longest, time.Second)
	c.Again = cmp.Or(c.Again, time.Second)
	c.Retry = cmp.Or(c.Retry, time.Second)
}

// Signal names the devices to read.
type Signal struct {
	rdma.Changes
	// First is when the first event of the signal was received.
	First time.Time
}

// Watcher listens to the events of the kernel, see [Start].
type Watcher struct {
	Config
	interest atomic.Pointer[Interest]
	events   chan rdma.Changes
	signals  chan Signal
	rdma     rdmaSource
}

// Start listens to the kernel until ctx ends. It sends the first signal at once, and that signal names everything,
// because earlier events are unknown. No event after the return of Start is lost.
func Start(ctx context.Context, c Config) *Watcher {
	c.complete()
	w := &Watcher{Config: c, events: make(chan rdma.Changes), signals: make(chan Signal),
		rdma: rdmaSource{wanted: loop.NewSignal()}}
	w.interest.Store(&Interest{})
	var sources sync.WaitGroup
	for _, s := range []source{
		{open: c.Uevents, parser: func() parser { return w.uevent }},
		{open: c.Links, parser: func() parser { return newLinks().changes }},
	} {
		opened, err := s.open()
		sources.Go(func() { w.receive(ctx, s, opened, err) })
	}
	sources.Go(func() { w.receiveRDMA(ctx) })
	go func() {
		sources.Wait()
		close(w.events)
	}()
	go func() {
		defer close(w.signals)
		w.gather()
	}()
	return w
}

// Signals returns the channel of signals. A signal that nobody has received yet grows with later events. The channel is
// closed some time after the context has ended.
func (w *Watcher) Signals() <-chan Signal { return w.signals }

// Follow gives the watcher the latest snapshot of the host. Callers must call it after each read, from one goroutine at
// a time. Before the first call, only events about HCAs and new hardware cause signals.
func (w *Watcher) Follow(snap *rdma.Snapshot) {
	w.FollowInterest(InterestIn(snap))
}

// FollowInterest is Follow for a program that follows more devices than the HCAs of a snapshot.
func (w *Watcher) FollowInterest(i Interest) {
	w.interest.Store(&i)
	w.rdma.want(i.HCAs)
}

// parser names the devices to read after a datagram.
type parser func(datagram []byte, of *Interest) rdma.Changes

func (w *Watcher) uevent(datagram []byte, of *Interest) rdma.Changes {
	u, ok := ParseUevent(datagram)
	if !ok {
		return rdma.Changes{}
	}
	if u.Subsystem == "infiniband" && u.Action == "remove" {
		w.rdma.release()
	}
	return u.changes(of)
}

// source is a socket and its parser. Each time the socket is opened it gets a new parser.
type source struct {
	open   func() (io.ReadCloser, error)
	parser func() parser
}

// receive passes on the changes of a source until ctx ends. After a failure, and after each attempt to open the source
// again, it reports that everything may have changed. While the source stays closed there are no events, only reads of
// everything at growing intervals.
func (w *Watcher) receive(ctx context.Context, s source, opened io.ReadCloser, err error) {
	for backoff := loop.NewBackoff(w.Retry, longestRetry); ; {
		if err == nil {
			backoff.Reset()
			err = w.read(ctx, opened, s.parser())
		}
		if ctx.Err() != nil {
			return
		}
		w.Report(err)
		if !loop.Sleep(ctx, backoff.Next()) {
			return
		}
		opened, err = s.open()
		w.events <- rdma.Changes{All: true} // events may be lost
	}
}

// longestRetry is the longest wait between two attempts to open a source.
const longestRetry = time.Minute

// maxDatagram is more than the size of any datagram: a uevent has 2 KiB (UEVENT_BUFFER_SIZE), an answer of rtnetlink at
// most 32 KiB.
const maxDatagram = 64 << 10

// read reads a source until it fails, and then closes it. An overflow does not end it.
func (w *Watcher) read(ctx context.Context, source io.ReadCloser, parse parser) error {
	stop := context.AfterFunc(ctx, func() { source.Close() })
	defer func() {
		stop()
		source.Close()
	}()
	buf := make([]byte, maxDatagram)
	for {
		n, err := source.Read(buf)
		var c rdma.Changes
		switch {
		case errors.Is(err, unix.ENOBUFS):
			c.All = true
		case err != nil:
			return err
		default:
			c = parse(buf[:n], w.interest.Load())
		}
		if !c.Empty() {
			w.events <- c
		}
	}
}

// gather merges events into signals until the channel of events is closed.
func (w *Watcher) gather() {
	p := pending{Watcher: w, changes: rdma.Changes{All: true}, first: time.Now(), quiet: w.Quiet}
	p.due = p.first
	for {
		var ready chan<- Signal
		var due <-chan time.Time
		if !p.changes.Empty() {
			if left := time.Until(p.due); left > 0 {
				due = time.After(left)
			} else {
				ready = w.signals
			}
		}
		select {
		case c, ok := <-w.events:
			if !ok {
				return
			}
			p.add(c)
			p.again(c)
		case ready <- Signal{Changes: p.changes, First: p.first}:
			p.changes, p.last = rdma.Changes{}, time.Now()
		case <-p.repeat:
			p.add(p.later)
			p.later, p.repeat = rdma.Changes{}, nil
		case <-due:
		}
	}
}

// pending is the next signal. Only gather uses it.
type pending struct {
	*Watcher
	changes rdma.Changes
	first   time.Time     // when its first event came
	due     time.Time     // when to send it
	last    time.Time     // when the previous signal was sent
	quiet   time.Duration // how long to wait for a quiet moment

	later  rdma.Changes     // the names for the second signal
	repeat <-chan time.Time // when to send it; nil if there is none
}

func (p *pending) add(c rdma.Changes) {
	now := time.Now()
	if p.changes.Empty() {
		p.first = now
		p.quiet = p.nextQuiet(p.quiet, now.Sub(p.last))
	}
	p.changes.Merge(c)
	p.due = now.Add(p.quiet)
	if latest := p.first.Add(p.Longest); p.due.After(latest) {
		p.due = latest
	}
}

// again schedules a second change with the HCAs and interfaces of an event.
func (p *pending) again(c rdma.Changes) {
	if p.Again < 0 {
		return
	}
	p.later.Merge(rdma.Changes{IBDevs: c.IBDevs, Netdevs: c.Netdevs})
	if !p.later.Empty() {
		p.repeat = time.After(p.Again)
	}
}

// nextQuiet returns how long to wait for more events. The wait doubles, up to Storm, while signals follow each other.
func (w *Watcher) nextQuiet(before, sinceSignal time.Duration) time.Duration {
	if sinceSignal > w.Storm {
		return w.Quiet
	}
	return min(2*before, w.Storm)
}

// Interest names the devices whose events cause a signal. Events about HCAs, their nodes, and new hardware always cause
// one.
type Interest struct {
	// Netdevs are the interfaces of ports, and the interfaces whose addresses are GIDs.
	Netdevs rdma.Names
	// Functions are the PCI functions with HCAs, and the PFs of VFs and SFs.
	Functions rdma.Names
	// HCAs reports whether the host has any HCA.
	HCAs bool
}

// InterestIn returns the interest for the devices of a snapshot.
func InterestIn(snap *rdma.Snapshot) Interest {
	i := Interest{HCAs: len(snap.HCAs) > 0}
	for n := range snap.HCAs {
		h := &snap.HCAs[n]
		i.Functions.Add(h.PF)
		if h.PCI != nil {
			i.Functions.Add(h.PCI.Address)
		}
		for _, p := range h.Ports {
			i.Netdevs.Add(p.Netdev)
		}
	}
	return i
}

// netdevs returns a change of the given interfaces if one of them matters. Callers pass both names of a renamed
// interface, and its bond, and all are then in the change.
func (i *Interest) netdevs(names ...string) rdma.Changes {
	if slices.ContainsFunc(names, i.Netdevs.Has) {
		return rdma.Changes{Netdevs: rdma.NamesOf(names...)}
	}
	return rdma.Changes{}
}
