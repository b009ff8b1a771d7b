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
package publisher

import (
	"context"
	"math"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/wake"
)

// Config configures a Publisher.
type Config struct {
	Client kubernetes.Interface
	Driver string
	// Node is the name of the node and of its pool.
	Node string
	// Report is called with each error. The publisher then tries again. If the server dropped fields, the error is a
	// *resourceslice.DroppedFieldsError, and the publisher does not try again.
	Report func(context.Context, error)
	// Stored is called once, when the API server has all slices for the first time. It may be nil.
	Stored func()
}

// Publisher publishes one pool. Publish may be called by any goroutine.
type Publisher struct {
	cfg    Config
	server *mirror
	asked  wake.Signal

	mu     sync.Mutex
	wanted []resourceslice.Slice // nil before the first Publish

	// Only Run uses these fields.
	settled []settled // by index; nil before the first complete pass
	owner   *metav1.OwnerReference
}

// settled is a slice that the API server has as wanted, or without the fields that the server dropped.
type settled struct {
	wanted resourceslice.Slice
	actual *resourceapi.ResourceSlice
}

// New returns a publisher. It starts no goroutine.
func New(cfg Config) *Publisher {
	return &Publisher{cfg: cfg, server: newMirror(), asked: wake.NewSignal()}
}

// Publish sets the wanted slices and returns at once. It does not copy the devices: the caller must not modify them any
// more.
func (p *Publisher) Publish(wanted []resourceslice.Slice) {
	p.mu.Lock()
	p.wanted = append([]resourceslice.Slice{}, wanted...)
	p.mu.Unlock()
	p.asked.Set()
}

// retries returns the backoff for tries after an error.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: math.MaxInt, Cap: 30 * time.Second}
}

// restoreQuiet is the time without an outside change of the slices after which the next restoration is immediate again.
const restoreQuiet = time.Minute

// Run publishes until ctx ends. The slices stay on the API server.
func (p *Publisher) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { p.server.follow(ctx, p.cfg) })
	retry, restore := retries(), retries()
	var disturbed time.Time
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.asked:
		case <-p.server.changed:
			if p.settled != nil {
				if again == nil && !p.inStep() {
					if time.Since(disturbed) > restoreQuiet {
						restore = retries()
					}
					disturbed, again = time.Now(), time.After(restore.Step())
				}
				continue
			}
		case <-again:
		}
		again = nil
		if err := p.sync(ctx); err == nil {
			retry = retries()
			if p.cfg.Stored != nil && p.settled != nil {
				p.cfg.Stored()
				p.cfg.Stored = nil
			}
		} else if ctx.Err() == nil {
			again = time.After(retry.Step())
			p.cfg.Report(ctx, err)
		}
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
