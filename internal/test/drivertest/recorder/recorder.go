// Package recorder keeps what a part of the driver reports, for the part's own tests.
package recorder

import (
	"slices"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// Recorder is a Reporter, or the base of one. Several goroutines may use it.
type Recorder struct {
	mu     sync.Mutex
	events []event.Event
	notes  []string
}

// Record keeps an event.
func (r *Recorder) Record(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Note keeps the reason and the object of a line of the status.
func (r *Recorder) Note(reason, object, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, reason+" "+object)
}

// Warn is Note for an error.
func (r *Recorder) Warn(reason, object string, _ error) { r.Note(reason, object, "") }

// Events returns the events so far.
func (r *Recorder) Events() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Notes returns the reasons and objects of the notes so far.
func (r *Recorder) Notes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notes)
}
