package dra_test

import (
	"net/http"
	"os"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/apifault"
)

// Steps of the soak that the hardware and the API server take.

func (s *soak) flap() {
	i := s.pick(len(s.host.cards))
	c := &s.host.cards[i]
	c.down = !c.down
	s.note("port of %d is down: %v", i, c.down)
	if !c.gone {
		s.host.tell("change", *c)
	}
	s.host.apply(s.Node)
}

// storm has the ports of two HCAs fail and come back, faster than anybody follows.
func (s *soak) storm() {
	a, b := s.pick(len(s.host.cards)), s.pick(len(s.host.cards))
	n := 5 + s.pick(6)
	s.note("ports of %d and %d flap %d times", a, b, n)
	for i := range n {
		for _, at := range []int{a, b} {
			c := &s.host.cards[at]
			c.down = i%2 == 0
			if !c.gone {
				s.host.tell("change", *c)
			}
		}
		s.host.apply(s.Node)
	}
}

// reload takes all HCAs away and brings them back, two of them under each other's names.
func (s *soak) reload() {
	a, b := s.pick(len(s.host.cards)), s.pick(len(s.host.cards))
	s.note("all drivers are loaded anew, and the names of %d and %d are exchanged", a, b)
	each := func() {
		for i := range s.host.cards {
			s.host.goOrCome(i)
		}
	}
	for i := range s.host.cards {
		if s.host.cards[i].gone {
			s.host.goOrCome(i)
		}
	}
	each()
	s.host.apply(s.Node)
	if a != b {
		s.host.rename(a, b, true)
	}
	each()
	s.host.apply(s.Node)
}

func (s *soak) namesMove() {
	a, b, both := s.pick(len(s.host.cards)), s.pick(len(s.host.cards)), s.pick(2) == 0
	if a == b {
		return
	}
	s.note("names of %d and %d are exchanged, of ibdevs too: %v", a, b, both)
	s.host.rename(a, b, both)
	s.host.apply(s.Node)
}

func (s *soak) goOrCome() {
	i := s.pick(len(s.host.cards))
	s.host.goOrCome(i)
	s.host.cards[i].seenBy = 0
	if s.published == s.launches {
		s.host.cards[i].seenBy = s.launches
	}
	s.note("%d is gone: %v", i, s.host.cards[i].gone)
	s.host.apply(s.Node)
}

// soakTroubles are kinds of trouble with the API server that are over soon.
var soakTroubles = []apiFault{
	{"down", apifault.Down, true, nil},
	{"slow", apifault.Slow(200 * time.Millisecond), false, nil},
	{"too busy", apifault.Status(http.StatusTooManyRequests), true, nil},
	{"token expired", apifault.Status(http.StatusUnauthorized), true, nil},
	{"broken", apifault.Status(http.StatusInternalServerError), true, nil},
	{"conflict", apifault.Status(http.StatusConflict), true, nil},
	{"flaky", apifault.Mostly(3, apifault.Down), false, nil},
	{"hangs", apifault.Hang, true, nil},
}

func (s *soak) troubleBegins() {
	if s.trouble != nil {
		return
	}
	kind := soakTroubles[s.pick(len(soakTroubles))]
	if kind.name == "hangs" && os.Getenv("TEST_LONG") == "" {
		return // what hangs then is given up after half a minute
	}
	s.note("the API server is in trouble: %s", kind.name)
	s.trouble = &trouble{kind, s.proxy.Arm(apifault.Fault{N: 1, Do: kind.do, Lasting: true})}
}

func (s *soak) troubleEnds() {
	if s.trouble == nil {
		return
	}
	s.note("the API server is well again")
	s.trouble.shot.Disarm()
	s.trouble = nil
}
