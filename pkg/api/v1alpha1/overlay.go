package v1alpha1

import "cmp"

// Overlay replaces the fields of s that over sets.
func (s *Settings) Overlay(over Settings) {
	s.Memlock = cmp.Or(over.Memlock, s.Memlock)
	replace(&s.Nodes, over.Nodes)
	replace(&s.Env, over.Env)
	s.OnUnusable = cmp.Or(over.OnUnusable, s.OnUnusable)
	s.Marks.Overlay(over.Marks)
	s.Limits.Overlay(over.Limits)
	s.Network.Overlay(over.Network)
}

// Overlay replaces the fields of a that over sets.
func (a *Allow) Overlay(over Allow) {
	a.MemlockMax = cmp.Or(over.MemlockMax, a.MemlockMax)
	replace(&a.Nodes, over.Nodes)
	replace(&a.Env, over.Env)
	a.AllowMarks.Overlay(over.AllowMarks)
	a.LimitsMax.Overlay(over.LimitsMax)
	a.Network.Overlay(over.Network)
}

// replace replaces a list if the other one is set. An empty list is.
func replace[L ~[]E, E any](list *L, over L) {
	if over != nil {
		*list = over
	}
}

// Overlay replaces the fields of l that over sets.
func (l *Limits) Overlay(over Limits) {
	l.Handles = cmp.Or(over.Handles, l.Handles)
	l.Objects = cmp.Or(over.Objects, l.Objects)
}
