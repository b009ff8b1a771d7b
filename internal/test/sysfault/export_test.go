package sysfault

// Idle reports whether no fault is armed.
func (s *Supervisor) Idle() bool { return s.armed() == nil }
