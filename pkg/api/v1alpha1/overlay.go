package v1alpha1

import "cmp"

// Overlay replaces the fields of s that over sets.
func (s *Settings) Overlay(over Settings) {
	s.Memlock = cmp.Or(over.Memlock, s.Memlock)
	if over.Nodes != nil {
		s.Nodes = over.Nodes
	}
	if over.Env != nil {
		s.Env = over.Env
	}
	s.Marks.Overlay(over.Marks)
	s.Limits.Overlay(over.Limits)
	s.Network.Overlay(over.Network)
}

// Overlay replaces the fields of a that over sets.
func (a *Allow) Overlay(over Allow) {
	a.MemlockMax = cmp.Or(over.MemlockMax, a.MemlockMax)
	if over.Nodes != nil {
		a.Nodes = over.Nodes
	}
	if over.Env != nil {
		a.Env = over.Env
	}
	a.AllowMarks.Overlay(over.AllowMarks)
	a.LimitsMax.Overlay(over.LimitsMax)
	a.Network.Overlay(over.Network)
}

// Overlay replaces the fields of l that over sets.
func (l *Limits) Overlay(over Limits) {
	l.Handles = cmp.Or(over.Handles, l.Handles)
	l.Objects = cmp.Or(over.Objects, l.Objects)
}
