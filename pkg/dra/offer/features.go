package offer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

// missing has the features that the API server turned out to lack. Only the server's answer to a slice shows this:
// nobody can read the versions and gates of a managed control plane. A restart of the driver tries the features again.
type missing struct{ gates sync.Map }

func (m *missing) has(gate string) bool {
	_, ok := m.gates.Load(gate)
	return ok
}

// Features returns the states of the optional features of the API server that the slices of the decision use, and of
// those that turned out to be missing.
func (d *Decision) Features(o *Offer) policy.Features {
	out, published := policy.Features{}, o.last.Load()
	for name := range d.uses() {
		out[name] = policy.FeatureNotSeen
		if published != nil && published.uses()[name] && o.publisher.Loss() == nil {
			out[name] = policy.FeatureUsed
		}
	}
	o.missing.gates.Range(func(name, _ any) bool {
		out[name.(string)] = policy.FeatureMissing
		return true
	})
	return out
}

// notPublished handles the error of slices that the API server did not store as they are. If the server lacks a
// feature, it has the slices published without the feature. The publisher retries after any other error.
func (o *Offer) notPublished(ctx context.Context, err error) {
	if _, ok := errors.AsType[*resourceslice.DroppedFieldsError](err); ok {
		o.cfg.Troubles.Note(ctx, "publish resourceslices", apiclient.DroppedFields, err.Error())
	}
	if _, ok := errors.AsType[*publisher.ChangedError](err); ok {
		o.cfg.Troubles.Note(ctx, "publish resourceslices", apiclient.ChangedFields, err.Error())
	}
	published := o.last.Load()
	if gates := missingFeatures(err, published != nil && published.Options.Counters); len(gates) > 0 {
		o.publishWithout(ctx, gates, err)
		return
	}
	o.cfg.Metrics.PublishFailed()
	o.cfg.Report.Warn("NotPublished", o.cfg.NodeName, err)
	utilruntime.HandleErrorWithContext(ctx, err, "Slices not published")
}

// missingFeatures returns the missing features that an error of publishing shows, if the slices can be published
// without them.
func missingFeatures(err error, countersUsed bool) []string {
	if dropped, ok := errors.AsType[*resourceslice.DroppedFieldsError](err); ok {
		return slices.DeleteFunc(dropped.DisabledFeatures(), func(gate string) bool { return policy.Without(gate) == "" })
	}
	if !answer.Answered(err) {
		return nil
	}
	// Kubernetes 1.34 requires counters in the slice of the devices that use them. It rejects the slices that later
	// versions require.
	if countersUsed && apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ounter") {
		return []string{featuregate.PartitionableDevices}
	}
	// Such a server also takes fewer taints of a device, and says so first if that is the only mistake.
	says := func(words string) bool { return strings.Contains(err.Error(), words) }
	if apierrors.IsInvalid(err) && (says("effect") || says(".taints: Too many")) {
		return []string{policy.TaintEffectNone}
	}
	return nil
}

// publishWithout has the slices published without features. It logs and reports each feature once.
func (o *Offer) publishWithout(ctx context.Context, gates []string, err error) {
	for _, gate := range gates {
		if _, known := o.missing.gates.LoadOrStore(gate, true); known {
			continue
		}
		klog.FromContext(ctx).Info("The API server does not have an optional feature: publishing without it until the driver restarts",
			"featureGate", gate, "effect", policy.Without(gate), "answer", err.Error())
		o.cfg.Report.Warn("FeatureMissing", gate, fmt.Errorf("the API server does not have it: %s", policy.Without(gate)))
		o.changed.Set()
	}
}

// healthPolicy returns how conditions become taints under a policy, for an API server without these features.
func (m *missing) healthPolicy(p *policy.Config) health.Policy {
	return health.Policy{Effects: p.TaintEffects(), Informational: !m.has(policy.TaintEffectNone)}
}
