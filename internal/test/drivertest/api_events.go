package drivertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	corev1 "k8s.io/api/core/v1"
)

// ToldOf waits for just these events about claims and pods, in any order: "Pod/a RDMAPortDown".
func (a *API) ToldOf(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(want)
	Eventually(t, func() error {
		got := []string{}
		for _, e := range a.Events() {
			if e.InvolvedObject.Kind != "Node" {
				of := e.InvolvedObject
				got = append(got, fmt.Sprintf("%s/%s %s %s", of.Kind, of.Name, e.Type, e.Reason))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("events (-want +got):\n%s", diff)
		}
		return nil
	})
}

// EventMessage waits for an event and returns what it says. That a request was counted does not say that its event is
// there.
func (a *API) EventMessage(t testing.TB, kind, reason string) string {
	t.Helper()
	var e corev1.Event
	Eventually(t, func() error {
		events := a.Events()
		i := slices.IndexFunc(events, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == kind && e.Reason == reason
		})
		if i < 0 {
			return fmt.Errorf("no event %s on a %s", reason, kind)
		}
		e = events[i]
		return nil
	})
	test.True(t, e.InvolvedObject.UID != "" && e.Source.Component == "rdma.dev" &&
		e.Source.Host == NodeName, test.Sprintf("event %+v", e))
	test.True(t, kind == "Node" || e.Namespace == "team-a", test.Sprintf("event %+v", e))
	return e.Message
}
