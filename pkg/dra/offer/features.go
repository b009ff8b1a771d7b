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
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

// These are optional features of the API server, named by their feature gates.
const (
	gateConsumable = "DRAConsumableCapacity"
	gateCounters   = "DRAPartitionableDevices"
	gateTaints     = "DRADeviceTaints"

	// gateNone is no feature gate. API servers before Kubernetes 1.36 do not know the taint effect None, and reject a
	// slice with it.
	gateNone = "device taints of effect None"
)

var without = map[string]string{
	gateConsumable: "a shared HCA and a group are for one claim at a time",
	gateCounters:   "an HCA that should be published exclusive and shared is shared only, and a card offers its VFs and not its PF",
	gateTaints:     "an HCA with a fault that no claim holds is left out of the slices; one that claims hold can get more claims of the same kind",
	gateNone:       "conditions that keep no claim away are not in the slices",
}

// missing has the features that the API server turned out to lack. Only the server's answer to a slice shows this:
// nobody can read the versions and gates of a managed control plane. A restart of the driver tries the features again.
type missing struct{ gates sync.Map }

func (m *missing) has(gate string) bool {
	_, ok := m.gates.Load(gate)
	return ok
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
		return slices.DeleteFunc(dropped.DisabledFeatures(), func(gate string) bool { return without[gate] == "" })
	}
	if !answer.Answered(err) {
		return nil
	}
	// Kubernetes 1.34 requires counters in the slice of the devices that use them. It rejects the slices that later
	// versions require.
	if countersUsed && apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ounter") {
		return []string{gateCounters}
	}
	// Such a server also takes fewer taints of a device, and says so first if that is the only mistake.
	says := func(words string) bool { return strings.Contains(err.Error(), words) }
	if apierrors.IsInvalid(err) && (says("effect") || says(".taints: Too many")) {
		return []string{gateNone}
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
			"featureGate", gate, "effect", without[gate], "answer", err.Error())
		o.cfg.Report.Warn("FeatureMissing", gate, fmt.Errorf("the API server does not have it: %s", without[gate]))
		o.changed.Set()
	}
}
