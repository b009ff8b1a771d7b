// Package node has the driver's host as one immutable value.
//
// A [Host] is the host at one moment. It has the HCAs that are present or in the network namespace of a pod, and the
// last known state of each HCA. A [View] is a Host with the health that was judged from it, and with the plans of its
// prepared claims. Nobody modifies either. A caller that decides something takes one of them and uses only this one. So
// the CDI spec of a claim and the files beside it are of the same host.
//
// [Node] is the only writer. It follows the events of the kernel (package watch). It also polls ports whose state
// changes without an event, and judges the health of HCAs (package health). It calls a [Listener] after each change.
// While the kernel moves or reloads a device, a claim cannot be prepared for a moment: [Node.Settle] waits for the end
// of such a change.
//
// Node also reads the records of claims, although the host does not depend on them. A View needs their plans, and an
// HCA that a claim holds stays known while it is missing. So this package imports packages claimstore and plan, and no
// part of the driver.
//
// HCAs that claims hold may be missing when the driver starts. So Node stores what it knows of them, and the next
// driver of the same boot reads it (docs/adr/0013).
package node

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Config configures a Node.
type Config struct {
	// HostRoot is the directory that holds the host's sys and dev.
	HostRoot string
	// Sys is the host's sys, nil for the directory below HostRoot.
	Sys fs.ReadLinkFS
	// Genl asks the kernel about firmware, links, cables and software HCAs, nil for nobody: they are not known.
	Genl Genl
	// NodeName is the Kubernetes name of the node. LeafFiles may contain it.
	NodeName string
	// LeafFiles are the files that say to which leaf switches HCAs are connected.
	LeafFiles LeafFiles
	// Store has the records of claims.
	Store *claimstore.Store
	// Mover moves HCAs into the network namespaces of pods on a host in exclusive mode. It may be nil.
	Mover Mover
	// Health has the time that a fault must last before it counts.
	Health health.Config
	// Source announces changes of the host. It is nil for the kernel, which Events configures.
	Source Source
	Events watch.Config
	// Now is time.Now. Changes of the host's clock do not change its differences.
	Now func() time.Time
}

// Source announces what may have changed, until ctx ends. Node calls looked with the snapshot after each reading of the
// host.
type Source func(ctx context.Context) (signals <-chan watch.Signal, looked func(*rdma.Snapshot))

// Listener is called after changes. One goroutine calls all of its functions.
type Listener struct {
	// Reshaped is called when specs of claims may no longer fit the host. It calls NotAdapted if some still do not.
	Reshaped func(context.Context) error
	// Changed is called after each change of the host or of its health.
	Changed func()
	// Health is called with the transitions of one look, and with the number of further HCAs that may have the same
	// cause.
	Health func(ctx context.Context, mayFollow int, transitions []health.Transition, plans []*plan.Plan)
}

// Node keeps the Host up to date. It is the only writer of it, and is safe for concurrent use.
type Node struct {
	Moves Moves // of HCAs into pods and back; Open makes it

	cfg      Config
	sys      fs.ReadLinkFS
	verifier verifier
	listener Listener

	scanner *rdma.Scanner
	host    atomic.Pointer[Host]
	writing sync.Mutex           // held while the value of host changes
	judged  atomic.Pointer[View] // the last judged host, without plans; only Open, Start and Run replace it

	unsaved  atomic.Bool // an HCA is not stored for the next driver yet
	reshaped atomic.Bool // specs of claims may not fit any more
	misfits  loop.Errors
	changed  loop.Signal // another goroutine has read the host, or SetPolicy was called
	health   *judge
	leaves   *leaves
}

// Open returns a Node that has read the host once, with the VPD of its cards. It leaves no goroutine behind, but for a
// card that does not answer.
func Open(cfg Config) (*Node, error) {
	second, err := rdmamap.Open(cfg.HostRoot)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, sys: cfg.Sys, health: newJudge(cfg.Health), leaves: newLeaves(&cfg), changed: loop.NewSignal(),
	}
	n.Moves.mover = cfg.Mover
	if n.sys == nil {
		n.sys = sysfs.DirFS(filepath.Join(cfg.HostRoot, "sys"))
	}
	n.health.asker.genl, n.health.asker.sys, n.Moves.sys = cfg.Genl, n.sys, n.sys
	if n.cfg.Source == nil {
		n.cfg.Source = kernelEvents(cfg.Events)
	}
	n.verifier = verifier{
		root: cfg.HostRoot, sys: n.sys, second: &rdmamap.Confirmer{Ask: second.DevicesForPCI}, software: n.software,
	}
	n.scanner = rdma.NewScanner(n.sys)
	n.scanner.Software = n.software
	n.host.Store(&Host{Sys: n.sys, seen: map[string]*rdma.HCA{}}) // before a scan, which asks it for software HCAs
	n.scanner.Learn(recallVPD(cfg.Store.Memory()))
	if err := n.Rescan(); err != nil {
		return nil, err
	}
	_, err = n.readVPD(context.Background())
	n.judged.Store(&View{Host: n.Host(), Health: n.health.model.View(), outdated: make(chan struct{})})
	return n, err
}

// Host returns the last reading of the host. It may be newer than the last View: what is done for a claim needs the
// newest, and no health.
func (n *Node) Host() *Host { return n.host.Load() }

// Judged returns the last View, without the plans of claims. Unlike View it reads no file.
func (n *Node) Judged() View { return *n.judged.Load() }

// View returns the last host whose health was judged, with its prepared claims. It reads the records at each call, and
// omits unreadable ones.
func (n *Node) View(ctx context.Context) View {
	v := n.Judged()
	v.Plans = plansOf(ctx, n.cfg.Store)
	return v
}

// plansOf returns the plans of the prepared claims that can be read.
func plansOf(ctx context.Context, store *claimstore.Store) []*plan.Plan {
	plans, err := store.List()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some records of claims are not read")
	}
	return plans
}

// Sys returns the host's /sys.
func (n *Node) Sys() fs.ReadLinkFS { return n.sys }

// replace makes a changed copy of the present Host the new one. change gets the copy.
func (n *Node) replace(change func(h *Host)) {
	n.writing.Lock()
	defer n.writing.Unlock()
	next := *n.host.Load()
	change(&next)
	n.host.Store(&next)
}

// Plan returns the plan of a prepared claim, nil if there is none.
func (n *Node) Plan(uid types.UID) (*plan.Plan, error) { return n.cfg.Store.Get(uid) }
