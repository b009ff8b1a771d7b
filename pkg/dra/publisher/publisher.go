// Package publisher keeps the ResourceSlices of a node as the driver wants them.
//
// It does the work of the controller in k8s.io/dynamic-resource-allocation/resourceslice. It uses the same names of
// slices and the same rules for the generation of a pool. It also reports fields that a server drops, and keeps the
// times of taints, in the same way. So a node can change from one to the other and back. Three differences matter for a
// node with many devices (docs/adr/0021):
//
//   - Unchanged slices cost nothing. The caller passes the same devices again, in the same memory, which a comparison
//     skips (docs/adr/0032). The publisher copies a slice only to write it.
//   - A change of attributes or taints writes only the slices with that change, for example the two slices of a large
//     card. All slices are written for a new generation only. It starts in two cases: a slice is created, or devices or
//     their counters change in more than one slice.
//   - If somebody else deletes slices, as a starting kubelet does, the publisher restores them at once. If they are
//     deleted repeatedly, the delay grows: two drivers that want different slices must not write as fast as they can.
//
// The publisher keeps nothing about other objects for longer than one use (docs/adr/0046): it reads the Node before each
// creation of slices, and regularly compares what its watch has reported with a list of the API server.
package publisher

import (
	"context"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// Config configures a Publisher.
type Config struct {
	Client kubernetes.Interface
	Driver string
	// Node is the name of the node and of its pool.
	Node string
	// Report is called with each error. The publisher then tries again, unless the server has stored a slice otherwise:
	// without fields (*resourceslice.DroppedFieldsError), or with others (*ChangedError).
	Report func(context.Context, error)
	// Stored is called once, when the API server has all slices for the first time. It may be nil.
	Stored func()
	// Lost is called when the API server has lacked the wanted slices for lossNotice. It is called again when they are
	// back, with Over, and also after a shorter loss if people should know its cause. It may be nil.
	Lost func(context.Context, Loss)
	// NodeReplaced is called when the Node is another object than before. ServerRestored is called when the API server
	// has data of an earlier time. Both may be nil.
	NodeReplaced, ServerRestored func()
}

// Publisher publishes one pool. Publish may be called by any goroutine.
type Publisher struct {
	cfg    Config
	server *mirror
	asked  loop.Signal

	mu     sync.Mutex
	wanted []resourceslice.Slice // nil before the first Publish
	loss   *loss                 // nil while the API server has the wanted slices

	// Only Run uses these fields.
	settled  []settled     // by index; nil before the first complete pass
	every    time.Duration // the shortest time between two comparisons with a list
	revision string        // of the last list
	doubt    bool          // the last list differed from what the watch had reported
}

// settled is a slice that the API server has as wanted, or as the server changed it.
type settled struct {
	wanted resourceslice.Slice
	actual *resourceapi.ResourceSlice
}

// New returns a publisher. It starts no goroutine.
func New(cfg Config) *Publisher {
	p := &Publisher{cfg: cfg, server: newMirror(), asked: loop.NewSignal(), every: listInterval}
	p.lose(errNothingYet, nil)
	p.loss.First = true
	return p
}

// Publish sets the wanted slices and returns at once. It does not copy the devices: the caller must not modify them any
// more.
func (p *Publisher) Publish(wanted []resourceslice.Slice) {
	p.mu.Lock()
	p.wanted = append([]resourceslice.Slice{}, wanted...)
	p.mu.Unlock()
	p.asked.Set()
}

// restoreQuiet is the time without an outside change of the slices after which the next restoration is immediate again.
const restoreQuiet = time.Minute

// nodePause is about the longest time between two requests for a Node that does not exist.
const nodePause = 4 * time.Second

// Pause returns the wait after an error. It is short while the API server has no such Node, so that a new one gets its
// slices within seconds.
func Pause(retry *loop.Backoff, err error, node string) time.Duration {
	if NodeGone(err, node) {
		return min(retry.Next(), wait.Jitter(nodePause, 0.5))
	}
	return retry.Next()
}

// Run publishes until ctx ends. The slices stay on the API server.
func (p *Publisher) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { p.server.follow(ctx, p.cfg) })
	retry := loop.NewBackoff(100*time.Millisecond, 30*time.Second)
	restore := loop.NewBackoff(100*time.Millisecond, 30*time.Second)
	var disturbed time.Time
	var again <-chan time.Time
	check := time.After(p.untilList())
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.late():
			p.tellLoss(ctx)
			continue
		case <-check:
			p.compareWithList(ctx)
			check = time.After(p.untilList())
			continue
		case <-p.asked:
		case <-p.server.changed:
			if p.settled != nil {
				if inStep := p.inStep(); again == nil && (!inStep || p.Loss() != nil) {
					if time.Since(disturbed) > restoreQuiet {
						restore.Reset()
					}
					if !inStep {
						p.lose(errChanged, nil)
					}
					disturbed, again = time.Now(), time.After(restore.Next())
				}
				continue
			}
		case <-again:
		}
		again = nil
		if err := p.sync(ctx); err == nil {
			retry.Reset()
			p.stored(ctx)
		} else if ctx.Err() == nil {
			p.lose(err, nil)
			again = time.After(Pause(retry, err, p.cfg.Node))
			p.cfg.Report(ctx, err)
		}
	}
}

// stored ends the loss if the API server has the slices of a complete pass.
func (p *Publisher) stored(ctx context.Context) {
	if p.settled == nil || !p.inStep() {
		return
	}
	p.endLoss(ctx)
	if p.cfg.Stored != nil {
		p.cfg.Stored()
		p.cfg.Stored = nil
	}
}

// inStep reports whether the API server still has the slices of the last complete pass.
func (p *Publisher) inStep() bool {
	have := p.server.latest()
	for _, s := range p.settled {
		if now := have[s.actual.Name]; now == nil || !same(now, s.actual) {
			return false
		}
	}
	return len(have) == len(p.settled)
}
