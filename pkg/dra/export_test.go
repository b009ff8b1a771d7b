package dra

import (
	"context"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// SetEvents has a driver hear of changes from a test instead of the kernel.
func (d *Driver) SetEvents(events <-chan rdma.Changes) {
	d.events = func(context.Context) <-chan rdma.Changes { return events }
}
