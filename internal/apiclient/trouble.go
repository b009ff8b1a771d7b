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
	// quietTime is how long nothing more is said of a kind of request whose trouble comes
	// and goes.
	quietTime = time.Minute
	// pastTime is the age from which the last failure of a kind of request says nothing of
	// the present: it may never be made again.
	pastTime = 10 * time.Minute
)

// Trouble is what one kind of request meets.
type Trouble struct {
	Request     string // "get resourceclaims"
	Reason      Reason // of the last one
	Message     string
	Since, Last time.Time // the first and the last failure
	Times       int

	logged bool
}

// String is the trouble in words.
func (t Trouble) String() string {
	return fmt.Sprintf("%s: %s, %d times from %s to %s: %s", t.Request, t.Reason, t.Times,
		t.Since.UTC().Format(time.RFC3339), t.Last.UTC().Format(time.RFC3339), t.Message)
}

// Failure is a kind of request and what it met.
type Failure struct {
	Request string
	Reason  Reason
}

// Troubles know what is wrong with the API server. The zero value knows of nothing, and
// so does nil.
type Troubles struct {
	mu     sync.Mutex
	now    map[string]*Trouble  // by kind of request
	said   map[string]time.Time // when a trouble's begin was last logged
	counts map[Failure]int
}

// Note takes the outcome of a request. The first failure of a kind, another reason, and the
// success that ends it are logged.
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
			logger.Info("The API server is well again", "request", request, "was", one.Reason, "times", one.Times, "for",
				time.Since(one.Since).Round(time.Millisecond))
		}
	}
}

// Current returns the kinds of requests that are in trouble: the last one of each failed,
// and not long ago.
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

// Failures returns how often requests failed, since the start of the program.
func (t *Troubles) Failures() map[Failure]int {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}
