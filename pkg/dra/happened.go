package dra

import (
	"fmt"

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

func (d *Driver) noteHealth(transitions []health.Transition) {
	for _, t := range transitions {
		d.happened.Add(d.now(), statuspage.Event{Warning: t.Grave(), Reason: t.Reason(), Object: t.Device, Message: t.Note()})
	}
}
