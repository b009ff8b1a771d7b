package apiclient

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// quietTime is how long further messages about a kind of request are suppressed if its trouble comes and goes.
	quietTime = time.Minute
	// pastTime is the age from which on the last failure of a kind of request is no longer current. The driver may
	// never send such a request again.
	pastTime = 10 * time.Minute
)

// Trouble describes the failures of one kind of request.
type Trouble struct {
	Request     string // "get resourceclaims"
	Reason      Reason // of the last failure
	Message     string
	Since, Last time.Time // the first and the last failure
	Times       int

	logged bool
}

// String describes the trouble for people.
func (t Trouble) String() string {
	return fmt.Sprintf("%s: %s, %d times from %s to %s: %s", t.Request, t.Reason, t.Times,
		t.Since.UTC().Format(time.RFC3339), t.Last.UTC().Format(time.RFC3339), t.Message)
}

// Failure is a kind of request and the reason of its failure.
type Failure struct {
	Request string
	Reason  Reason
}

// Troubles records the present problems with the API server. It is safe for concurrent use. The zero value and nil are
// ready to use; nil records nothing.
type Troubles struct {
	mu     sync.Mutex
	now    map[string]*Trouble  // by kind of request
	said   map[string]time.Time // when the beginning of a trouble was last logged
	counts map[Failure]int
}

// Note records the outcome of a request. It logs the first failure of a kind, each change of the reason, and the
// success that ends the trouble.
func (t *Troubles) Note(ctx context.Context, request string, reason Reason, message string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if reason == Well {
		t.end(klog.FromContext(ctx), request)
		return
	}
	if t.now == nil {
		t.now, t.said, t.counts = map[string]*Trouble{}, map[string]time.Time{}, map[Failure]int{}
	}
	t.counts[Failure{request, reason}]++
	one := t.now[request]
	if one == nil {
		one = &Trouble{Request: request, Since: time.Now()}
		t.now[request] = one
	}
	if said, ok := t.said[request]; one.Reason != reason && (!ok || time.Since(said) > quietTime) {
		one.logged, t.said[request] = true, time.Now()
		klog.FromContext(ctx).Info("Trouble with the API server", "request", request, "reason", reason, "detail", message)
	}
	one.Reason, one.Message, one.Last = reason, message, time.Now()
	one.Times++
}

func (t *Troubles) end(logger klog.Logger, request string) {
	if one := t.now[request]; one != nil {
		delete(t.now, request)
		if one.logged {
			logger.Info("The API server answers again", "request", request, "was", one.Reason, "times", one.Times,
				"for", time.Since(one.Since).Round(time.Millisecond))
		}
	}
}

// Current returns the kinds of requests that are in trouble: the last request of each kind failed recently.
func (t *Troubles) Current() []Trouble {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Trouble
	for _, one := range t.now {
		if time.Since(one.Last) < pastTime {
			out = append(out, *one)
		}
	}
	slices.SortFunc(out, func(a, b Trouble) int { return cmp.Compare(a.Request, b.Request) })
	return out
}

// Failures returns how often requests have failed since the program started. The caller owns the result.
func (t *Troubles) Failures() map[Failure]int {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}
