package dra

import (
	"fmt"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/statuspage"
)

// note keeps what happened for the status page. The log has it too, with all details.
func (d *Driver) note(reason, object, format string, args ...any) {
	d.happened.Add(d.now(), statuspage.Event{Reason: reason, Object: object, Message: fmt.Sprintf(format, args...)})
}

// warn keeps what went wrong.
func (d *Driver) warn(reason, object string, err error) {
	d.happened.Add(d.now(), statuspage.Event{Warning: true, Reason: reason, Object: object, Message: err.Error()})
}

func (d *Driver) noteEnd(claim kubeletplugin.NamespacedObject, err error) {
	name := claim.Namespace + "/" + claim.Name
	if err != nil {
		d.warn("NotUnprepared", name, err)
		return
	}
	d.note("Unprepared", name, "UID %s", claim.UID)
}

func (d *Driver) noteHealth(transitions []health.Transition) {
	for _, t := range transitions {
		d.happened.Add(d.now(), statuspage.Event{Warning: t.Grave(), Reason: t.Reason(), Object: t.Device, Message: t.Note()})
	}
}

// noteReports keeps those reports of the hook that tell of a container that has less locked
// memory than it should, or is less limited.
func (d *Driver) noteReports(found []hook.Report) {
	for _, r := range found {
		if !r.Outcome.Well() {
			d.warn("MemlockNotRaised", r.ID, fmt.Errorf("%s: %s", r.Outcome, r.Message))
		}
		for _, l := range r.Limits {
			if !l.Outcome.Well() {
				d.warn("LimitNotSet", r.ID, fmt.Errorf("%s of %s: %s: %s", l.Want.String(), l.Device, l.Outcome, l.Message))
			}
		}
	}
}
