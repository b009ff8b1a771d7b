package dra

import (
	"context"
	"io/fs"
	"time"

	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// SetClock has a driver take the time from a test.
func (c *Config) SetClock(now func() time.Time) { c.now = now }

// SetEvents has a driver hear of changes from a test instead of the kernel.
func (c *Config) SetEvents(events <-chan watch.Signal) {
	c.source = func(context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
		return events, func(*rdma.Snapshot) {}
	}
}

// Spend has a driver send by other limits, or by a clock of the test.
func (c *Config) Spend(limits budget.Limits, clock clock.WithTicker) {
	c.limits, c.clock = &limits, clock
}

// SetSys has a driver read the sysfs of a test.
func (c *Config) SetSys(sys fs.ReadLinkFS) { c.sys = sys }

// Sandboxes is what the container runtime tells of pods.
func (d *Driver) Sandboxes() nri.Handler { return d.pods }

// Pending returns the pods that may lack devices.
func (d *Driver) Pending() []nri.Pod { return d.pods.Pending() }
