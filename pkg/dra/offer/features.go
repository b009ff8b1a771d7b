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

	"github.com/rdma-dev/dra-driver-rdma/internal/apiclient"
)

// Optional features of the API server, by their gates, and what is published
// without them.
const (
	gateConsumable = "DRAConsumableCapacity"
	gateCounters   = "DRAPartitionableDevices"
	gateTaints     = "DRADeviceTaints"

	// gateNone is no gate: API servers before Kubernetes 1.36 do not know the effect
	// None, and refuse a slice with it.
	gateNone = "device taints of effect None"
)

var without = map[string]string{
	gateConsumable: "a shared HCA and a group are for one claim at a time",
	gateCounters:   "an HCA that should be published exclusive and shared is shared only, and a card offers its VFs and not its PF",
	gateTaints:     "an HCA with a fault that no claim holds is left out of the slices; one that claims hold can get more claims of the same kind",
	gateNone:       "conditions that keep no claim away are not in the slices",
}

// missing are the features that the API server turned out not to have. Whether it
// has them is known from what it does with a slice alone: versions and gates of a
// managed control plane cannot be asked for. A restart of the driver tries again.
type missing struct {
	mu    sync.Mutex
	gates []string
}

func (m *missing) has(gate string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.gates, gate)
}

// add remembers a gate, and returns false if it was known.
func (m *missing) add(gate string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.gates, gate) {
		return false
	}
	m.gates = append(m.gates, gate)
	return true
}

// notPublished takes the error of slices that the API server did not take as they are. If it lacks a feature, the
// offer publishes without it. The publisher tries all else again.
func (o *Offer) notPublished(ctx context.Context, err error) {
	if _, ok := errors.AsType[*resourceslice.DroppedFieldsError](err); ok {
		o.cfg.Troubles.Note(ctx, "publish resourceslices", apiclient.DroppedFields, err.Error())
	}
	if gates := missingFeatures(err, o.usesCounters()); len(gates) > 0 {
		o.publishWithout(ctx, gates, err)
		return
	}
	o.cfg.Metrics.PublishFailed()
	o.cfg.Report.Warn("NotPublished", o.cfg.NodeName, err)
	utilruntime.HandleErrorWithContext(ctx, err, "Slices not published")
}

// usesCounters reports whether the slices that were published last have counters.
func (o *Offer) usesCounters() bool {
	published := o.last.Load()
	return published != nil && published.Options.Counters
}

// missingFeatures returns the features that an error of publishing shows to be
// missing, if it can be published without them.
func missingFeatures(err error, countersUsed bool) []string {
	if dropped, ok := errors.AsType[*resourceslice.DroppedFieldsError](err); ok {
		return slices.DeleteFunc(dropped.DisabledFeatures(), func(gate string) bool { return without[gate] == "" })
	}
	// Kubernetes 1.34 wants counters in the slice of the devices that use them, and
	// refuses slices as later versions want them.
	if countersUsed && apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ounter") {
		return []string{gateCounters}
	}
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "effect") {
		return []string{gateNone}
	}
	return nil
}

// publishWithout publishes again, without features. It says so once.
func (o *Offer) publishWithout(ctx context.Context, gates []string, err error) {
	again := false
	for _, gate := range gates {
		if !o.missing.add(gate) {
			continue
		}
		klog.FromContext(ctx).Info("The API server does not have an optional feature: publishing without it until the driver restarts",
			"featureGate", gate, "effect", without[gate], "answer", err.Error())
		o.cfg.Report.Warn("FeatureMissing", gate, fmt.Errorf("the API server does not have it: %s", without[gate]))
		again = true
	}
	if again {
		o.changed.Set()
	}
}
