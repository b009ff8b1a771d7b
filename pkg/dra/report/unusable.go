package report

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// unusables merges events of containers that cannot use their HCAs. The pods of a workload have one image, so all of
// them have its fault: a pod within a minute after another one only counts up the first pod's event.
type unusables struct {
	mu    sync.Mutex
	first map[string]firstUnusable
}

type firstUnusable struct {
	event event.Event
	last  time.Time // that it counted
}

const (
	unusableWindow = time.Minute
	maxUnusables   = 256
)

// merged returns the event to record: that of an earlier pod of the namespace with the same fault, or e.
func (u *unusables) merged(e event.Event, now time.Time) event.Event {
	if e.Fault == "" {
		return e
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := e.Namespace + "/" + e.Fault
	if f, ok := u.first[key]; ok && now.Sub(f.last) < unusableWindow {
		u.first[key] = firstUnusable{f.event, now}
		return f.event
	}
	if u.first == nil || len(u.first) >= maxUnusables {
		u.first = map[string]firstUnusable{}
	}
	u.first[key] = firstUnusable{e, now}
	return e
}

// notices remembers which pods were told something that is said once.
type notices struct {
	mu   sync.Mutex
	told map[notice]bool
}

// notice is for a pod of a claim, or for all pods of the claim if the pod is unknown.
type notice struct{ claim, pod types.UID }

// maxNotices bounds what is remembered. After that many, pods whose containers start again are told again.
const maxNotices = 1024

// first reports whether it is called for the first time with this notice.
func (n *notices) first(of notice) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[of] {
		return false
	}
	if n.told == nil || len(n.told) >= maxNotices {
		n.told = map[notice]bool{}
	}
	n.told[of] = true
	return true
}

// unusableEvents returns an event for each kind of fault. A limit of locked memory that the hook could not raise has an
// event of its own.
func unusableEvents(hooked record.Report, p *plan.Plan, container string) (events []event.Event) {
	var faults []finding.Finding
	hcas := map[string][]string{}
	for _, c := range hooked.Checks {
		if !c.Severity.Bad() || c.ID == record.Memlock.ID && !hooked.Outcome.Well() {
			continue
		}
		hcas[c.ID] = append(hcas[c.ID], c.Subjects...)
		if !slices.ContainsFunc(faults, func(f finding.Finding) bool { return f.ID == c.ID }) {
			faults = append(faults, c)
		}
	}
	for _, f := range faults {
		what := "HCAs"
		if names := hcas[f.ID]; len(names) > 0 {
			what = strings.Join(names, ", ")
		}
		message := fmt.Sprintf("%s cannot use %s of claim %s: %s", container, what, p.Name, f.Message)
		if f.Remedy != "" {
			message += ". Remedy: " + f.Remedy
		}
		e := event.OfClaim(p, event.NotUsable, message)
		e.Fault = f.ID + "/" + container + "/" + f.Remedy // without the names of HCA, claim and pod
		events = append(events, e)
	}
	return events
}
