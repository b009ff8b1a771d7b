package nodestatus

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Event is an event with the number of its repetitions.
type Event struct {
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
	Warning bool      `json:"warning"`
	Reason  string    `json:"reason"`           // in UpperCamelCase, as in the events of Kubernetes
	Object  string    `json:"object,omitempty"` // an HCA, a claim as namespace/name, a container
	Message string    `json:"message"`
}

// The bounds of a log: it takes at most 400 KiB.
const (
	maxEvents = 200
	maxText   = 1024
)

// Log keeps the last events. The zero value is empty; it is safe for use by several
// goroutines.
type Log struct {
	mu     sync.Mutex
	events []Event // the oldest first
}

// Add adds an event at a time. If the log has the event already, such as a call that the kubelet
// repeats every minute, Add counts it there and makes it the newest. It escapes what a terminal would act on.
func (l *Log) Add(at time.Time, e Event) {
	e.First, e.Last, e.Count = at, at, 1
	e.Object, e.Message = shorten(text.Terminal(e.Object)), shorten(text.Terminal(e.Message))
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.events, e.same); i >= 0 {
		e.First, e.Count = l.events[i].First, l.events[i].Count+1
		l.events = slices.Delete(l.events, i, i+1)
	}
	if len(l.events) >= maxEvents {
		l.events = slices.Delete(l.events, 0, len(l.events)-maxEvents+1)
	}
	l.events = append(l.events, e)
}

// same reports whether two events have the same content.
func (e *Event) same(o Event) bool {
	return e.Warning == o.Warning && e.Reason == o.Reason && e.Object == o.Object && e.Message == o.Message
}

// Events returns a copy of the events, the newest first.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.events)
	slices.Reverse(out)
	return out
}

// shorten returns a copy of a text, so that the log does not keep the memory of the whole text.
func shorten(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText-len("…")], "") + "…"
	}
	return strings.Clone(s)
}
