// Package publisher keeps the ResourceSlices of a node as its driver wants them.
//
// It does what the controller of k8s.io/dynamic-resource-allocation/resourceslice does for
// a driver, with the same names of slices, the same rules for the generation of a pool,
// the same word on fields that a server drops, and the same care for the time of a taint;
// a node can go from one to the other and back. It differs in three things that matter to
// a node with many devices (docs/adr/0021):
//
//   - What did not change costs nothing. The caller hands over the same devices again, in
//     the same memory, which a comparison skips (docs/adr/0032). The publisher copies a
//     slice only to write it.
//   - A change of what devices are like, such as the taints of a card that fills two
//     slices, writes the slices of that card. Only devices that come, go or move make a
//     new generation, for which all slices are written.
//   - Slices that someone else deletes, as a kubelet does that starts, are back at once.
//     Those that are deleted again and again come back ever later: two drivers that do
//     not want the same must not write as fast as they can.
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
)

// Config says whose slices these are.
type Config struct {
	Client kubernetes.Interface
	Driver string
	// Node is the node, and the name of its pool.
	Node string
	// Report hears what went wrong; it is tried again. A server that dropped fields is
	// reported as a *resourceslice.DroppedFieldsError, and not asked again.
	Report func(context.Context, error)
	// Stored hears, once, that the API server has all slices; nil for nobody.
	Stored func()
}

// Publisher publishes one pool.
type Publisher struct {
	cfg    Config
	server *mirror
	asked  chan struct{}

	mu     sync.Mutex
	wanted []resourceslice.Slice // nil before the first Publish

	// Of Run alone.
	settled []settled // by index; nil before the first time that all was well
	owner   *metav1.OwnerReference
}

// settled is a slice that the API server has as it was wanted, or as near to that as the
// server would have it.
type settled struct {
	wanted resourceslice.Slice
	actual *resourceapi.ResourceSlice
}

// New makes a publisher. It starts nothing.
func New(cfg Config) *Publisher {
	return &Publisher{cfg: cfg, server: newMirror(), asked: make(chan struct{}, 1)}
}

// Publish says what is wanted from now on. The devices are not copied here: nobody may
// change them any more.
func (p *Publisher) Publish(wanted []resourceslice.Slice) {
	p.mu.Lock()
	p.wanted = append([]resourceslice.Slice{}, wanted...)
	p.mu.Unlock()
	notify(p.asked)
}

// retries spaces the tries after something failed.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: math.MaxInt, Cap: 30 * time.Second}
}

// restoreQuiet is how long nobody may have touched the slices for the next restoration to
// come at once.
const restoreQuiet = time.Minute

// Run publishes until ctx ends. The slices stay.
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

// inStep reports whether the API server has what it had when all was well.
func (p *Publisher) inStep() bool {
	have := p.server.latest()
	for _, s := range p.settled {
		if now := have[s.actual.Name]; now == nil || !same(now, s.actual) {
			return false
		}
	}
	return len(have) == len(p.settled)
}

// notify makes sure that a value is waiting in c.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
