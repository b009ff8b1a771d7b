package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
)

// Loss is a time in which the API server does not have the wanted slices.
type Loss struct {
	Since time.Time
	Cause error
	// Told means that the loss has lasted for lossNotice, and Config.Lost was called.
	Told bool
	// First means that the driver has not had all wanted slices on the API server since its start.
	First bool
	// Over means that the API server has the slices again.
	Over bool
}

// lossNotice is the duration from which on a loss is reported. It is longer than a restart of the kubelet or of the API
// server takes, and leaves time to report within a minute.
const lossNotice = 30 * time.Second

var (
	errNothingYet = errors.New("the driver has not written them yet")
	errChanged    = errors.New("somebody else deleted or changed them; the driver writes them again")
	errNoNode     = errors.New("the Node object does not exist: create it, for example by a restart of the kubelet; " +
		"the driver publishes within seconds after that")
	errNodeGone = errors.New("the Node object did not exist")
)

// loss is the present loss.
type loss struct {
	Loss
	root error // the cause that people should know even if the loss is short; nil for none
}

// lose notes that the API server does not have the wanted slices. The last cause counts, and the last root that is not
// nil.
func (p *Publisher) lose(cause, root error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss == nil {
		p.loss = &loss{Loss: Loss{Since: time.Now()}}
	}
	p.loss.Cause = cause
	if root != nil {
		p.loss.root = root
	}
}

// NotYet sets the cause of the present loss: nothing is published because of err. It does nothing after the first
// complete publication.
func (p *Publisher) NotYet(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss != nil && p.wanted == nil {
		p.loss.Cause = err
		if NodeGone(err, p.cfg.Node) {
			p.loss.root = errNodeGone
		}
	}
}

// Loss returns the present loss, nil for none.
func (p *Publisher) Loss() *Loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss == nil {
		return nil
	}
	return new(p.loss.Loss)
}

// late returns a channel that is ready when the present loss is to be reported, nil for none.
func (p *Publisher) late() <-chan time.Time {
	l := p.Loss()
	if l == nil || l.Told {
		return nil
	}
	return time.After(lossNotice - time.Since(l.Since))
}

// tellLoss reports the present loss.
func (p *Publisher) tellLoss(ctx context.Context) {
	p.mu.Lock()
	p.loss.Told = true
	l := p.loss.Loss
	p.mu.Unlock()
	p.report(ctx, l)
}

// endLoss ends the present loss, if there is one.
func (p *Publisher) endLoss(ctx context.Context) {
	p.mu.Lock()
	l := p.loss
	p.loss = nil
	p.mu.Unlock()
	if l == nil || !l.Told && l.root == nil {
		return
	}
	l.Over = true
	if l.root != nil {
		l.Cause = l.root
	}
	p.report(ctx, l.Loss)
}

func (p *Publisher) report(ctx context.Context, l Loss) {
	if p.cfg.Lost != nil {
		p.cfg.Lost(ctx, l)
	}
}

// NodeGone reports whether the API server itself said that it has no Node of that name.
func NodeGone(err error, name string) bool {
	return answer.Gone(err, corev1.Resource("nodes"), name)
}

// readOwner reads the Node, which is to own the slices. Its UID is never kept: if the Node is deleted and created again,
// Kubernetes deletes all objects with the former UID in their owner reference.
func (r *pass) readOwner(ctx context.Context) error {
	node, err := r.publisher.cfg.Client.CoreV1().Nodes().Get(ctx, r.publisher.cfg.Node, metav1.GetOptions{})
	if NodeGone(err, r.publisher.cfg.Node) {
		err = fmt.Errorf("%w (%w)", errNoNode, err)
		r.publisher.lose(err, errNodeGone)
	}
	if err == nil {
		err = answer.About(node, "", r.publisher.cfg.Node)
	}
	if err != nil {
		return fmt.Errorf("get node %s, which is to own the slices: %w", r.publisher.cfg.Node, err)
	}
	r.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}
	if len(r.publisher.settled) > 0 && len(r.publisher.settled[0].actual.OwnerReferences) > 0 {
		if before := r.publisher.settled[0].actual.OwnerReferences[0].UID; before != node.UID {
			r.publisher.lose(errChanged, fmt.Errorf("the Node object was created anew (UID %s, before %s), "+
				"so Kubernetes deleted the slices of the former one", node.UID, before))
			if r.publisher.cfg.NodeReplaced != nil {
				r.publisher.cfg.NodeReplaced()
			}
		}
	}
	return nil
}
