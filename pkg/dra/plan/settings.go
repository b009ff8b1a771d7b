package plan

import (
	"cmp"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// Settings are the settings of one device after all who have a say had it.
// Memlock is the limit as the API words it, never empty.
type Settings struct {
	Memlock v1alpha1.Memlock `json:"memlock"`
	Nodes   []cdi.NodeClass  `json:"nodes"`
	Env     []string         `json:"env,omitempty"`
}

// DefaultSettings are what the driver starts from when its operator says nothing.
func DefaultSettings() Settings {
	return Settings{Memlock: v1alpha1.MemlockUnlimited, Nodes: cdi.DefaultNodes}
}

// resolve merges the configurations that apply to a result:
//
//	driver  <  class defaults, in order  <  the claim's, in order
//
// field by field: what a later one sets replaces the earlier value. What the
// claim sets must be allowed by the class; the last class that sets a field of
// "allow" decides. A limit that nobody set is cut to what the class allows. An
// administrator's access (KEP-5018) is bound by nothing, as the API server
// already asked for the namespace's admin-access label.
func resolve(configs []resourceapi.DeviceAllocationConfiguration, result resourceapi.DeviceRequestAllocationResult, admin bool, base Settings) (Settings, error) {
	var allow v1alpha1.Allow
	var defaults, wishes v1alpha1.Settings
	for _, config := range resourceclaim.ConfigForResult(configs, result) {
		if config.Opaque.Driver != DriverName {
			continue
		}
		obj, err := v1alpha1.Decode(config.Opaque.Parameters.Raw)
		if err != nil {
			return Settings{}, fmt.Errorf("read the parameters %s: %w", sourceName(config.Source), err)
		}
		switch c := obj.(type) {
		case *v1alpha1.HCAClassConfig:
			if config.Source != resourceapi.AllocationConfigSourceClass {
				return Settings{}, fmt.Errorf("kind %s stands in a claim: only an administrator's DeviceClass may carry it; use kind %s", c.Kind, v1alpha1.HCAConfigKind)
			}
			overlayAllow(&allow, c.Allow)
			overlay(&defaults, c.Defaults)
		case *v1alpha1.HCAConfig:
			if config.Source != resourceapi.AllocationConfigSourceClaim {
				return Settings{}, fmt.Errorf("kind %s stands in a DeviceClass: use kind %s and its field defaults", c.Kind, v1alpha1.HCAClassConfigKind)
			}
			overlay(&wishes, c.Settings)
		}
	}
	if !admin {
		if err := allow.Check(wishes, nil).ToAggregate(); err != nil {
			return Settings{}, fmt.Errorf("the claim's parameters: %w", err)
		}
	}
	overlay(&defaults, wishes)
	return settle(base, defaults, allow)
}

func sourceName(source resourceapi.AllocationConfigSource) string {
	if source == resourceapi.AllocationConfigSourceClass {
		return "of the DeviceClass"
	}
	return "of the claim"
}

// overlay replaces in s what over sets.
func overlay(s *v1alpha1.Settings, over v1alpha1.Settings) {
	s.Memlock = cmp.Or(over.Memlock, s.Memlock)
	if over.Nodes != nil {
		s.Nodes = over.Nodes
	}
	if over.Env != nil {
		s.Env = over.Env
	}
}

func overlayAllow(a *v1alpha1.Allow, over v1alpha1.Allow) {
	a.MemlockMax = cmp.Or(over.MemlockMax, a.MemlockMax)
	if over.Nodes != nil {
		a.Nodes = over.Nodes
	}
}

// settle fills in the driver's values where nobody set one.
func settle(base Settings, set v1alpha1.Settings, allow v1alpha1.Allow) (Settings, error) {
	out := base
	if set.Memlock != nil {
		out.Memlock = *set.Memlock
	} else if allow.MemlockMax != nil {
		have, err := base.Memlock.Bytes()
		limit, err2 := allow.MemlockMax.Bytes()
		if err := cmp.Or(err, err2); err != nil {
			return Settings{}, err
		}
		if have > limit {
			out.Memlock = *allow.MemlockMax
		}
	}
	if set.Nodes != nil {
		out.Nodes = nil
		for _, n := range set.Nodes {
			class, err := cdi.ParseNodeClass(n)
			if err != nil {
				return Settings{}, err
			}
			out.Nodes = append(out.Nodes, class)
		}
	}
	if len(out.Nodes) == 0 {
		return Settings{}, field.Required(field.NewPath("nodes"), "a device without nodes is of no use: leave the field out, or name verbs")
	}
	out.Env = set.Env
	return out, nil
}
