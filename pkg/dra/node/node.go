package node

import (
	"context"
	"io/fs"
	"k8s.io/apimachinery/pkg/types"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/wake"
	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Config is what a Node needs.
type Config struct {
	// HostRoot holds the host's sys and dev.
	HostRoot string
	// Sys is the host's sys, nil for the one below HostRoot.
	Sys fs.ReadLinkFS
	// Store has the records of claims.
	Store *claimstore.Store
	// Mover moves HCAs into the network namespaces of pods on a host in exclusive mode, nil for nobody.
	Mover Mover
	// Health says how long a fault must last before it counts.
	Health health.Config
	// Source announces changes of the host, nil for the kernel, which Events configures.
	Source Source
	Events watch.Config
	// Now is time.Now: its differences ignore changes of the host's clock.
	Now func() time.Time
}

// Source announces what may have changed, until ctx ends. After each look at the host, it is told what was found.
type Source func(ctx context.Context) (signals <-chan watch.Signal, looked func(*rdma.Snapshot))

// Listener is told of changes. All of its functions are called by one goroutine.
type Listener struct {
	// Reshaped is called when specs of claims may not fit the host any more. After an error it is called again with
	// the next look at the host.
	Reshaped func(context.Context) error
	// Changed is called after each change of the host or of its health.
	Changed func()
	// Health is called with the transitions of one look, and with how many HCAs more may follow for the same cause.
	Health func(ctx context.Context, mayFollow int, transitions []health.Transition, plans []*plan.Plan)
}

// Node keeps the picture of the host. It is the only writer of it.
type Node struct {
	cfg      Config
	sys      fs.ReadLinkFS
	verifier verifier
	movable
	listener Listener

	scan    sync.Mutex // held while the host is read, so that no older picture replaces a newer one
	scanner *rdma.Scanner
	host    atomic.Pointer[Host]
	writing sync.Mutex // held while the value of host changes

	unsaved  atomic.Bool // an HCA was seen that the next driver would not know
	reshaped atomic.Bool // specs of claims may not fit any more
	changed  wake.Signal // somebody else than Run has read the host, or health is judged by other times
	health   *judge
	taints   map[string][]resourceapi.DeviceTaint // that the next driver will know, of one goroutine
}

// Open reads the host for the first time.
func Open(cfg Config) (*Node, error) {
	second, err := rdmamap.Open(cfg.HostRoot)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, sys: cfg.Sys, health: newJudge(cfg.Health), changed: wake.NewSignal()}
	if n.sys == nil {
		n.sys = sysfs.DirFS(filepath.Join(cfg.HostRoot, "sys"))
	}
	if n.cfg.Source == nil {
		n.cfg.Source = kernelEvents(cfg.Events)
	}
	n.verifier.root, n.verifier.sys, n.verifier.second.ask = cfg.HostRoot, n.sys, second.DevicesForPCI
	n.movable.Mover = cfg.Mover
	n.scanner = rdma.NewScanner(n.sys)
	n.host.Store(&Host{Health: n.health.model.View(), Sys: n.sys, seen: map[string]*rdma.HCA{}})
	_, err = n.Rescan()
	return n, err
}

// Host returns the host as it was read last.
func (n *Node) Host() *Host { return n.host.Load() }

// View returns the host with the claims that are prepared on it. Records that cannot be read are left out.
func (n *Node) View(ctx context.Context) View {
	plans, err := n.cfg.Store.List()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some records of claims are not read")
	}
	return View{n.Host(), plans}
}

// Sys is the host's /sys.
func (n *Node) Sys() fs.ReadLinkFS { return n.sys }

// replace puts a new value in the place of the host. Change gets a copy of the last one.
func (n *Node) replace(change func(h *Host)) {
	n.writing.Lock()
	defer n.writing.Unlock()
	next := *n.host.Load()
	change(&next)
	n.host.Store(&next)
}

// Plan returns the plan of a prepared claim, nil where there is none.
func (n *Node) Plan(uid types.UID) (*plan.Plan, error) { return n.cfg.Store.Get(uid) }
