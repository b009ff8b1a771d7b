package plan

import (
	"cmp"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Settings are the merged settings of one device. Memlock is the limit in the notation of the API, never empty.
type Settings struct {
	Memlock v1alpha1.Memlock `json:"memlock"`
	Nodes   []rdma.NodeClass `json:"nodes"`
	Env     []string         `json:"env,omitempty"`
	// OnUnusable is what the hook does if the container cannot use the device, "" for its default.
	OnUnusable string `json:"onUnusable,omitempty"`
	v1alpha1.Marks
}

// words are the merged configurations of the classes and of the claim for one result. A later configuration overrides
// an earlier one, field by field:
//
//	node  <  class defaults, in order  <  the claim's, in order
type words struct {
	allow     v1alpha1.Allow
	defaults  v1alpha1.Settings
	requested v1alpha1.Settings
}

// readConfigs reads the configurations that apply to a result. If several classes set a field of "allow", the last one
// wins.
func readConfigs(configs []resourceapi.DeviceAllocationConfiguration, result resourceapi.DeviceRequestAllocationResult) (*words, error) {
	w := &words{}
	for _, config := range resourceclaim.ConfigForResult(configs, result) {
		if config.Opaque.Driver != rdma.Domain {
			continue
		}
		obj, err := v1alpha1.Decode(config.Opaque.Parameters.Raw)
		if err != nil {
			return nil, fmt.Errorf("read the parameters %s: %w", sourceName(config.Source), err)
		}
		switch c := obj.(type) {
		case *v1alpha1.HCAClassConfig:
			if config.Source != resourceapi.AllocationConfigSourceClass {
				return nil, fmt.Errorf("kind %s does not belong in a claim: only an administrator's DeviceClass may have it; "+
					"use kind %s", c.Kind, v1alpha1.HCAConfigKind)
			}
			w.allow.Overlay(c.Allow)
			w.defaults.Overlay(c.Defaults)
		case *v1alpha1.HCAConfig:
			if config.Source != resourceapi.AllocationConfigSourceClaim {
				return nil, fmt.Errorf("kind %s does not belong in a DeviceClass: "+
					"use kind %s and its field defaults", c.Kind, v1alpha1.HCAClassConfigKind)
			}
			w.requested.Overlay(c.Settings)
		}
	}
	return w, nil
}

func sourceName(source resourceapi.AllocationConfigSource) string {
	if source == resourceapi.AllocationConfigSourceClass {
		return "of the DeviceClass"
	}
	return "of the claim"
}

// settings returns the merged settings of a device. The class must allow what the claim sets. A limit that neither sets
// is cut to the maximum of the class. Administrative access (KEP-5018) has no bounds, because the API server already
// required the namespace's admin-access label.
func (w *words) settings(admin bool, site Site) (Settings, error) {
	if !admin {
		if err := w.allow.Check(w.requested, nil).ToAggregate(); err != nil {
			return Settings{}, fmt.Errorf("the claim's parameters: %w", err)
		}
	}
	set := w.defaults
	set.Overlay(w.requested)
	out := Settings{
		Memlock: site.Memlock, Nodes: rdma.DefaultClasses, Env: set.Env,
		OnUnusable: strictest(w.defaults.OnUnusable, w.requested.OnUnusable),
	}
	var err error
	if set.Memlock != nil {
		out.Memlock = *set.Memlock
	} else if out.Memlock, err = cutMemlock(site.Memlock, w.allow.MemlockMax); err != nil {
		return Settings{}, err
	}
	if set.Nodes != nil {
		out.Nodes, err = nodeClasses(set.Nodes)
	}
	return out, err
}

// strictest returns the stricter one of two words of OnUnusable. The word "" is neither.
func strictest(a, b string) string {
	if slices.Index(v1alpha1.OnUnusableWords, a) > slices.Index(v1alpha1.OnUnusableWords, b) {
		return a
	}
	return b
}

// cutMemlock returns the lower one of the node's limit and the class's maximum.
func cutMemlock(base v1alpha1.Memlock, highest *v1alpha1.Memlock) (v1alpha1.Memlock, error) {
	if highest == nil {
		return base, nil
	}
	have, err := base.Bytes()
	limit, err2 := highest.Bytes()
	if err := cmp.Or(err, err2); err != nil {
		return "", err
	}
	if have > limit {
		return *highest, nil
	}
	return base, nil
}

func nodeClasses(names []string) ([]rdma.NodeClass, error) {
	var out []rdma.NodeClass
	for _, n := range names {
		class, err := rdma.ParseNodeClass(n)
		if err != nil {
			return nil, err
		}
		out = append(out, class)
	}
	if len(out) == 0 {
		return nil, field.Required(field.NewPath("nodes"), "a device without nodes is of no use: leave the field out, or name verbs")
	}
	return out, nil
}
