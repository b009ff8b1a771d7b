package dra

import (
	"context"

	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// SetEvents has a driver hear of changes from a test instead of the kernel.
func (d *Driver) SetEvents(events <-chan watch.Signal) {
	d.events = func(context.Context, watch.Config) (<-chan watch.Signal, func(*rdma.Snapshot)) {
		return events, func(*rdma.Snapshot) {}
	}
}
