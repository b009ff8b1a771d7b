package offer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// ErrUnbound means that the admission policies of the chart do not bind the driver's account.
var ErrUnbound = errors.New("the API server would let this driver write the ResourceSlices of another node: " +
	"no admission policy binds its account. Install the policies of the chart, and give the " +
	"ServiceAccount the name that they name; see docs/security.md")

// reach keeps the answers of the API server to a write that is not of this node. One goroutine calls judge.
type reach struct {
	client   kubernetes.Interface
	accepted int // answers since the last refusal
	unbound  atomic.Bool
}

// judge takes an answer, and returns the time until the next question. The first yes is a doubt only: the API server
// may not know the policies yet that were installed with the driver. An answer that is neither yes nor no changes
// nothing.
func (r *reach) judge(err error) time.Duration {
	switch {
	case err == nil:
		if r.accepted++; r.accepted == 1 {
			return time.Minute
		}
		r.unbound.Store(true)
	case apierrors.IsForbidden(err):
		r.accepted = 0
		r.unbound.Store(false)
	}
	return wait.Jitter(repeatInterval, 0.5)
}

// loop asks the API server whether it would refuse a write beyond the driver's own node, until ctx ends. Policies
// name the driver's account by a text, which tools that change namespaces and names leave as it is.
func (r *reach) loop(ctx context.Context) {
	foreign := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: rdma.Domain + "-foreign-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: rdma.Domain, NodeName: new(rdma.Domain + "-foreign"),
			Pool: resourceapi.ResourcePool{Name: rdma.Domain + "-foreign", Generation: 1, ResourceSliceCount: 1},
		},
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for pause := time.Duration(0); loop.Sleep(ctx, pause); {
		_, err := r.client.ResourceV1().ResourceSlices().Create(ctx, foreign, dryRun)
		before := r.unbound.Load()
		pause = r.judge(err)
		if r.unbound.Load() && !before {
			klog.FromContext(ctx).Error(ErrUnbound, "A token of the driver can harm other nodes")
		}
	}
}

// Unbound returns ErrUnbound if the API server has accepted a write beyond the driver's own node.
func (o *Offer) Unbound() error {
	if o.reach.unbound.Load() {
		return ErrUnbound
	}
	return nil
}
