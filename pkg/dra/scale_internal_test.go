package dra

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// counted counts what is read of a file system.
type counted struct {
	fs.ReadLinkFS
	n      atomic.Int64
	failed atomic.Bool // the port is DOWN
	port   string      // part of its path
}

func (c *counted) ReadFile(name string) ([]byte, error) {
	c.n.Add(1)
	if c.failed.Load() && strings.Contains(name, c.port) && path.Base(name) == "state" {
		return []byte("1: DOWN\n"), nil
	}
	return fs.ReadFile(c.ReadLinkFS, name)
}

func (c *counted) ReadDir(name string) ([]fs.DirEntry, error) {
	c.n.Add(1)
	return fs.ReadDir(c.ReadLinkFS, name)
}

func (c *counted) Stat(name string) (fs.FileInfo, error) {
	c.n.Add(1)
	return fs.Stat(c.ReadLinkFS, name)
}

func (c *counted) ReadLink(name string) (string, error) {
	c.n.Add(1)
	return c.ReadLinkFS.ReadLink(name)
}

// Open is what the functions of package fs fall back to.
func (c *counted) Open(string) (fs.File, error) { return nil, errors.ErrUnsupported }

// TestEventCost: an event about one HCA reads that HCA, however many there are.
func TestEventCost(t *testing.T) {
	cost := map[int]int64{}
	for _, functions := range []int{8, 1016} {
		sys := &counted{ReadLinkFS: largeHost(t, functions)}
		h := &host{sys: sys, scanner: rdma.NewScanner(sys), seen: map[string]*rdma.HCA{}, changed: make(chan struct{}, 1)}
		before, err := h.rescan()
		if err != nil {
			t.Fatal(err)
		}
		last := &before.HCAs[functions-1]
		sys.port = "/" + last.IBDev + "/ports/1/"
		sys.failed.Store(true)
		whole := sys.n.Swap(0)
		if err := h.update(rdma.Changes{IBDevs: rdma.NamesOf(last.IBDev)}); err != nil {
			t.Fatal(err)
		}
		cost[functions] = sys.n.Load()
		t.Logf("%d HCAs: %d operations for all, %d for one", functions, whole, cost[functions])
		now := h.snapshot().Lookup(last.Name)
		if now == nil || now.Active() {
			t.Errorf("the failed port was not noticed: %+v", now)
		}
		if len(h.changed) != 0 {
			t.Error("a link that fails has the specs of all claims looked at")
		}
		if diff := rdma.Compare(before, h.snapshot()); len(diff.HCAs) != 1 {
			t.Errorf("changed are %v, want one", diff.HCAs)
		}
	}
	if cost[1016] > cost[8] || cost[8] > 40 {
		t.Errorf("an event costs %v operations, want the same few for any number of HCAs", cost)
	}
}

// TestEventCostOfDriver: from the event to the taint that is published, the driver
// reads one HCA and writes one slice, however many there are.
func TestEventCostOfDriver(t *testing.T) {
	reads := map[int]int64{}
	for _, functions := range []int{8, 1016} {
		t.Run(fmt.Sprint(functions), func(t *testing.T) {
			writes := 0
			reads[functions], writes = eventCost(t, functions)
			t.Logf("%d operations on files, %d writes", reads[functions], writes)
			if writes != 1 {
				t.Errorf("an event costs %d writes, want one", writes)
			}
		})
	}
	if reads[1016] > reads[8] {
		t.Errorf("an event costs %v operations on files, want the same few for any number of HCAs", reads)
	}
}

// eventCost runs a driver and lets one of so many links fail.
func eventCost(t *testing.T, functions int) (reads int64, writes int) {
	t.Helper()
	n := drivertest.NewSharedNode(t, "none")
	d, sys := countedDriver(t, n, largeHost(t, functions))
	last := &d.host.snapshot().HCAs[functions-1]
	sys.port = "/" + last.IBDev + "/ports/1/"
	events := make(chan watch.Signal)
	d.SetEvents(events)
	drivertest.Run(t, d)
	drivertest.Eventually(t, func() error { return publishedWith(n, last.Name, 0) })
	sys.failed.Store(true)
	sys.n.Store(0)
	before := n.Count(drivertest.UpdateSlice)
	events <- watch.Signal{Changes: rdma.Changes{IBDevs: rdma.NamesOf(last.IBDev)}}
	drivertest.Eventually(t, func() error { return publishedWith(n, last.Name, 1) })
	return sys.n.Load(), n.Count(drivertest.UpdateSlice) - before
}

// largeHost is the sysfs of a host with so many HCAs, in memory.
func largeHost(t testing.TB, functions int) fs.ReadLinkFS {
	t.Helper()
	m, err := fixture.Large(functions)
	if err != nil {
		t.Fatal(err)
	}
	return m.FS(t)
}

// countedDriver makes a driver whose reads of a sysfs are counted.
func countedDriver(t testing.TB, n *drivertest.Node, host fs.ReadLinkFS) (*Driver, *counted) {
	t.Helper()
	cfg := Config{NodeName: drivertest.NodeName, HostRoot: n.Root, KubeletDir: n.Dir, StateDir: n.StateDir, CDIDir: n.CDIDir, Site: plan.DefaultSite(), Health: new(health.DefaultConfig())}
	cfg.Health.Down = 0
	d, err := New(cfg, n.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	sys := &counted{ReadLinkFS: host}
	d.host.sys, d.host.scanner = sys, rdma.NewScanner(sys)
	if _, err := d.host.rescan(); err != nil {
		t.Fatal(err)
	}
	return d, sys
}

// publishedWith returns nil when an HCA is published with so many taints.
func publishedWith(n *drivertest.Node, name string, taints int) error {
	for _, s := range n.Slices() {
		for _, device := range s.Spec.Devices {
			if device.Name == name && len(device.Taints) == taints {
				return nil
			}
		}
	}
	return fmt.Errorf("%s is not published with %d taints", name, taints)
}
