package policy

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
)

// TaintEffectNone is an optional feature of the API server without a feature gate. Before Kubernetes 1.36 an API server
// does not know the taint effect None, and rejects a slice with it.
const TaintEffectNone = "device taints of effect None"

// without are the optional features of the API server, by their feature gates, with what is published without them.
var without = map[string]string{
	featuregate.ConsumableCapacity: "a shared HCA and a group are for one claim at a time",
	featuregate.PartitionableDevices: "an HCA that should be published exclusive and shared is shared only, " +
		"and a card offers its VFs and not its PF",
	featuregate.DeviceTaints: "an HCA with a fault that no claim holds is left out of the slices; " +
		"one that claims hold can get more claims of the same kind",
	TaintEffectNone: "conditions that keep no claim away are not in the slices",
}

// Without says what is published without an optional feature of the API server, "" if there is no such feature.
func Without(feature string) string { return without[feature] }

// Features are optional features of an API server, each with one of the states.
type Features map[string]string

// The states of a feature: the API server lacks it, it stores slices that use it, or it has no such slice yet.
const (
	FeatureMissing = "missing"
	FeatureUsed    = "used"
	FeatureNotSeen = "not seen"
)

// Notes says what the API server lacks or may lack, with the effect.
func (f Features) Notes() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		words := name
		if name != TaintEffectNone {
			words = featuregate.Words(name, 0)
		}
		switch f[name] {
		case FeatureMissing:
			out = append(out, fmt.Sprintf("the API server lacks %s: %s", words, without[name]))
		case FeatureNotSeen:
			out = append(out, fmt.Sprintf("not seen whether the API server has %s: without it, %s", words, without[name]))
		}
	}
	return out
}

// Missing reports whether the API server lacks a feature.
func (f Features) Missing(feature string) bool { return f[feature] == FeatureMissing }

// Lack says which features the API server lacks.
func (s *State) Lack(has func(feature string) bool) {
	s.NoCounters, s.NoConsumable = has(featuregate.PartitionableDevices), has(featuregate.ConsumableCapacity)
	s.NoTaints, s.FewTaints = has(featuregate.DeviceTaints), has(TaintEffectNone)
}

// Uses returns the optional features with a gate that slices use. A policy may ask for others in vain on a host.
func Uses(made []resourceslice.Slice) map[string]bool {
	out := map[string]bool{}
	for _, s := range made {
		for _, d := range s.Devices {
			if d.AllowMultipleAllocations != nil {
				out[featuregate.ConsumableCapacity] = true
			}
			if d.ConsumesCounters != nil {
				out[featuregate.PartitionableDevices] = true
			}
			if d.Taints != nil {
				out[featuregate.DeviceTaints] = true
			}
		}
	}
	return out
}
