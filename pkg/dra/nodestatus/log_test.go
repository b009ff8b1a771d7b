package nodestatus_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
)

func ExampleLog() {
	var log nodestatus.Log
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	failed := nodestatus.Event{Warning: true, Reason: "NotPrepared", Object: "team-a/ring", Message: "in use"}
	log.Add(at, failed)
	log.Add(at.Add(time.Second), nodestatus.Event{Reason: "Prepared", Object: "team-b/ring"})
	log.Add(at.Add(time.Minute), failed)
	for _, e := range log.Events() {
		fmt.Println(e.Last.Format(time.TimeOnly), e.Reason, e.Object, e.Count)
	}
	// Output:
	// 12:01:00 NotPrepared team-a/ring 2
	// 12:00:01 Prepared team-b/ring 1
}

// TestLogBound: whatever comes, a log keeps the newest 200 events of at most a kilobyte each.
func TestLogBound(t *testing.T) {
	var log nodestatus.Log
	for i := range 1000 {
		log.Add(now, nodestatus.Event{Reason: "Prepared", Object: fmt.Sprint(i), Message: strings.Repeat("é", 600+i)})
	}
	events := log.Events()
	if len(events) != 200 || events[0].Object != "999" || events[199].Object != "800" {
		t.Errorf("%d events, from %s to %s", len(events), events[0].Object, events[len(events)-1].Object)
	}
	for _, e := range events {
		must.True(t, len(e.Message) <= 1024 && utf8.ValidString(e.Message) &&
			strings.HasSuffix(e.Message, "é…"),
			must.Sprintf("message of %d bytes: %q", len(e.Message), e.Message))
	}
}

// TestLogLongRepeats: what is cut is known again.
func TestLogLongRepeats(t *testing.T) {
	var log nodestatus.Log
	for range 3 {
		log.Add(now, nodestatus.Event{Reason: "NotPublished", Message: strings.Repeat("x", 2000)})
	}
	events := log.Events()
	test.True(t, len(events) == 1 && events[0].Count == 3, test.Sprintf("%d events", len(events)))
}

// TestLogAtOnce is for the race detector.
func TestLogAtOnce(t *testing.T) {
	var log nodestatus.Log
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 100 {
				log.Add(now, nodestatus.Event{Object: fmt.Sprint(i, j)})
				log.Events()
			}
		})
	}
	all.Wait()
	test.Eq(t, 200, len(log.Events()), test.Sprint("events"))
}
