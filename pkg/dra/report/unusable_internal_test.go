package report

import (
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// TestMerged: a Deployment whose pods start over minutes has one event, of its first pod. Another namespace, another
// fault, and the same fault after a minute of silence have their own.
func TestMerged(t *testing.T) {
	var u unusables
	now := time.Now()
	of := func(namespace, pod, fault string) string {
		e := event.Event{Namespace: namespace, PodName: pod, Fault: fault}
		return u.merged(e, now).PodName
	}
	wants := func(got, want string) {
		t.Helper()
		test.Eq(t, want, got, test.Sprintf("at %v the event is of pod", now))
	}
	wants(of("a", "first", "provider"), "first")
	for range 20 {
		now = now.Add(50 * time.Second)
		wants(of("a", "further", "provider"), "first")
	}
	wants(of("b", "further", "provider"), "further")
	wants(of("a", "further", "permission"), "further")
	wants(of("a", "further", ""), "further")
	now = now.Add(unusableWindow)
	wants(of("a", "later", "provider"), "later")
}
