package dra

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// SetClock has a driver take the time from a test.
func (d *Driver) SetClock(now func() time.Time) { d.now = now }

// SetEvents has a driver hear of changes from a test instead of the kernel.
func (d *Driver) SetEvents(events <-chan watch.Signal) {
	d.events = func(context.Context, watch.Config) (<-chan watch.Signal, func(*rdma.Snapshot)) {
		return events, func(*rdma.Snapshot) {}
	}
}

// Spend has a driver send by other limits, or by a clock of the test.
func (d *Driver) Spend(limits budget.Limits, c clock.WithTicker) { d.spend(limits, c) }

// Sandboxes is what the container runtime tells of pods.
func (d *Driver) Sandboxes() nri.Handler { return sandboxes{d} }

// NetdevOf is the interface of an HCA that a pod can have.
var NetdevOf = netdevOf

// Pending returns the pods that may lack devices.
func (d *Driver) Pending() []nri.Pod { return d.pending.all() }
