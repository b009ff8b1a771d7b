package soak

import "github.com/shoenig/test"

// Steps in which a claim loses its allocation while the kubelet has lost what it knew of the claim: no call ends it.

// lost picks a prepared claim with HCAs of its own that are there, nil for none.
func (s *soak) lost() *allocation {
	s.troubleEnds()
	if len(s.claims) == 0 {
		return nil
	}
	a := s.claims[s.pick(len(s.claims))]
	if !a.prepared || a.deleted || shared(a.cards[0]) || !a.there(s.host) {
		return nil
	}
	return a
}

// makeAnew makes a claim anew under its name, with the same HCAs, and prepares it. The pod of the first one may run
// on: it was deleted by force.
func (s *soak) makeAnew() {
	a := s.lost()
	if a == nil {
		return
	}
	runs := s.pick(2) == 0
	s.note("%s is created again under its name: %v, its first pod runs: %v", a.claim.Name, a.cards, runs)
	s.fault("claims that were created again under their name", 1)
	s.RemoveClaim(a.claim)
	s.end(a)
	next := s.allocate(s.host, a.cards...)
	next.claim.Name = a.claim.Name
	s.Allocate(next.claim)
	s.takeOver(a, next, runs)
}

// deallocate takes the allocation of a claim. Another claim is given its HCAs, or the driver that starts next finds
// out.
func (s *soak) deallocate() {
	a := s.lost()
	if a == nil {
		return
	}
	elsewhere, runs, swept := s.pick(2) == 0, s.pick(2) == 0, s.pick(3) == 0
	s.note("%s is deallocated: %v, allocated elsewhere: %v, its pod runs: %v, swept: %v", a.claim.Name, a.cards, elsewhere, runs, swept)
	s.fault("claims that were deallocated", 1)
	s.Deallocate(a.claim, elsewhere)
	s.end(a)
	if swept {
		s.listPods()
		s.kill()
		s.launch()
	} else {
		next := s.allocate(s.host, a.cards...)
		s.Allocate(next.claim)
		s.takeOver(a, next, runs)
	}
	s.RemoveClaim(a.claim)
}

// takeOver prepares a claim that was given the HCAs of another, which has to wait while the pod of that one runs. The
// kubelet lists the new claim's pod by name.
func (s *soak) takeOver(from, to *allocation, runs bool) {
	s.SetPods(nil, append(s.known().Prepared, to.claim)...)
	if runs {
		s.AddPodCgroup(s.t, from.usedBy())
	}
	s.AddPodCgroup(s.t, to.usedBy())
	ctx, cancel := s.callContext()
	defer cancel()
	if runs {
		test.Error(s.t, s.ask(ctx, 0, to),
			test.Sprintf("claim %s (%s) got what a pod of claim %s (%s) has", to.claim.Name, to.claim.UID, from.claim.Name, from.claim.UID))
		s.RemovePodCgroup(s.t, from.usedBy())
	}
	s.check(to, s.ask(ctx, 0, to))
	s.RemovePodCgroup(s.t, to.usedBy())
}
