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
	out.Allow = Allow{
		Nodes: slices.Clone(c.Allow.Nodes), MemlockMax: clone(c.Allow.MemlockMax), Env: slices.Clone(c.Allow.Env),
		AllowMarks: c.Allow.AllowMarks.DeepCopy(), LimitsMax: c.Allow.LimitsMax.DeepCopy(),
		Network: c.Allow.Network.DeepCopy(),
	}
	out.Defaults = c.Defaults.DeepCopy()
	return &out
}

// DeepCopy returns settings that share no memory with s.
func (s Settings) DeepCopy() Settings {
	return Settings{
		Memlock: clone(s.Memlock), Nodes: slices.Clone(s.Nodes), Env: slices.Clone(s.Env), OnUnusable: s.OnUnusable,
		Marks: s.Marks.DeepCopy(), Limits: s.Limits.DeepCopy(), Network: s.Network.DeepCopy(),
	}
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// DeepCopy returns limits that share no memory with l.
func (l Limits) DeepCopy() Limits {
	return Limits{Handles: l.Handles.clone(), Objects: l.Objects.clone()}
}
