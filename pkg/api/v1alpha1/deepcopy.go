package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (c *HCAConfig) DeepCopyObject() runtime.Object {
	out := *c
	out.Settings = c.Settings.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (c *HCAClassConfig) DeepCopyObject() runtime.Object {
	out := *c
	out.Allow = Allow{Nodes: slices.Clone(c.Allow.Nodes), MemlockMax: c.Allow.MemlockMax.clone(), Env: slices.Clone(c.Allow.Env), LimitsMax: c.Allow.LimitsMax.DeepCopy(), Network: c.Allow.Network.DeepCopy()}
	out.Defaults = c.Defaults.DeepCopy()
	return &out
}

// DeepCopy returns settings that share nothing with s.
func (s Settings) DeepCopy() Settings {
	return Settings{Memlock: s.Memlock.clone(), Nodes: slices.Clone(s.Nodes), Env: slices.Clone(s.Env), Limits: s.Limits.DeepCopy(), Network: s.Network.DeepCopy()}
}

func (m *Memlock) clone() *Memlock {
	if m == nil {
		return nil
	}
	out := *m
	return &out
}

// DeepCopy returns limits that share nothing with l.
func (l Limits) DeepCopy() Limits {
	return Limits{Handles: l.Handles.clone(), Objects: l.Objects.clone()}
}
