package soak

import (
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
)

// Steps of the soak that the hardware and the API server take.

func (s *soak) flap() {
	i := s.pick(len(s.host.cards))
	s.note("port of %d is down: %v", i, !s.host.cards[i].down)
	s.flip(i)
}

// flip lets a port fail, or brings it back.
func (s *soak) flip(i int) {
	s.fault("changes of links", 1)
	s.host.cards[i].down = !s.host.cards[i].down
	s.host.applyLinks(s.Worker, i)
}

// storm has the ports of two HCAs fail and come back, faster than anybody follows.
func (s *soak) storm() {
	a, b := s.pick(len(s.host.cards)), s.pick(len(s.host.cards))
	n := 5 + s.pick(6)
	s.note("ports of %d and %d flap %d times", a, b, n)
	s.fault("changes of links", 2*n)
	for i := range n {
		s.host.cards[a].down, s.host.cards[b].down = i%2 == 0, i%2 == 0
		s.host.applyLinks(s.Worker, a, b)
	}
}

// reload takes all HCAs away and brings them back, two of them under each other's names.
func (s *soak) reload() {
	a, b := s.pick(len(s.host.cards)), s.pick(len(s.host.cards))
	s.note("all drivers are loaded anew, and the names of %d and %d are exchanged", a, b)
	s.fault("reloads of all HCAs", 1)
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
	s.host.apply(s.Worker)
	if a != b {
		s.host.rename(a, b, true)
	}
	each()
	s.host.apply(s.Worker)
}

func (s *soak) namesMove() {
	a, b, both := s.pick(len(s.host.cards)), s.pick(len(s.host.cards)), s.pick(2) == 0
	if a == b {
		return
	}
	s.note("names of %d and %d are exchanged, of ibdevs too: %v", a, b, both)
	s.fault("exchanges of names", 1)
	s.host.rename(a, b, both)
	s.host.apply(s.Worker)
}

// namesMoveInCalls exchanges the names of HCAs while claims of them are prepared, and prepared again.
func (s *soak) namesMoveInCalls() {
	var all []*allocation
	for range 3 {
		if a := s.allocation(); a != nil {
			all = append(all, a)
		}
	}
	for _, a := range s.claims {
		if !slices.Contains(all, a) && !a.deleted && s.pick(2) == 0 && a.there(s.host) {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return
	}
	card := all[0].cards[0]
	other := (card + 1 + s.pick(len(s.host.cards)-1)) % len(s.host.cards)
	moment := time.Duration(s.random.Int64N(int64(6 * time.Millisecond)))
	s.note("names of %d and %d are exchanged in %d calls after %v", card, other, len(all), moment)
	s.fault("exchanges of names within a call", 1)
	ctx, cancel := s.callContext()
	defer cancel()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, a := range all {
		wg.Go(func() { errs[i] = s.ask(ctx, 0, a) })
	}
	time.Sleep(moment) // that is the moment
	s.host.rename(card, other, s.pick(2) == 0)
	s.host.apply(s.Worker)
	wg.Wait()
	for i, a := range all {
		s.check(a, errs[i])
	}
}

func (s *soak) goOrCome() {
	s.fault("HCAs that went or came back", 1)
	i := s.pick(len(s.host.cards))
	s.host.goOrCome(i)
	s.host.cards[i].seenBy = 0
	if s.published == s.launches {
		s.host.cards[i].seenBy = s.launches
	}
	s.note("%d is gone: %v", i, s.host.cards[i].gone)
	s.host.apply(s.Worker)
}

// kind is a kind of trouble with the API server.
type kind struct {
	name  string
	do    func(http.ResponseWriter, *http.Request, http.Handler)
	harms bool // a call that meets it fails
}

// troubles are those that are over soon.
var troubles = []kind{
	{"down", apifault.Down, true},
	{"slow", apifault.Slow(200 * time.Millisecond), false},
	{"too busy", apifault.Status(http.StatusTooManyRequests), true},
	{"token expired", apifault.Status(http.StatusUnauthorized), true},
	{"broken", apifault.Status(http.StatusInternalServerError), true},
	{"conflict", apifault.Status(http.StatusConflict), true},
	{"generic 404", apifault.Answers[0].Do, true},
	{"flaky", apifault.Mostly(3, apifault.Down), false},
	{"hangs", apifault.Hang, true},
}

func (s *soak) troubleBegins() {
	if s.trouble != nil {
		return
	}
	k := troubles[s.pick(len(troubles))]
	if k.name == "hangs" && os.Getenv("TEST_LONG") == "" {
		return // what hangs then is given up after half a minute
	}
	s.note("the API server is in trouble: %s", k.name)
	s.trouble = &trouble{k, s.proxy.Arm(apifault.Fault{N: 1, Do: k.do, Lasting: true})}
}

func (s *soak) troubleEnds() {
	if s.trouble == nil {
		return
	}
	s.note("the API server is well again")
	s.trouble.shot.Disarm()
	s.fault("requests to an API server in trouble", len(s.trouble.shot.Seen()))
	s.trouble = nil
}

// cut ends all connections to the API server, with the watches on them.
func (s *soak) cut() {
	s.note("connections to the API server are cut")
	s.fault("cuts of all connections to the API server", 1)
	s.proxy.Cut()
}

// serverRestarts kills the API server and starts it again. Meanwhile a claim can be ended.
func (s *soak) serverRestarts() {
	s.note("the API server is killed and starts again")
	s.fault("kills of the API server", 1)
	var ended sync.WaitGroup
	var a *allocation
	if len(s.claims) > 0 {
		a = s.claims[s.pick(len(s.claims))]
		s.note("meanwhile unprepare %s: %v", a.claim.Name, a.cards)
		ended.Go(func() { s.mustUnprepare(a) })
	}
	s.Restart()
	ended.Wait()
	if a != nil {
		s.forget(a)
	}
}

// foreignWrites has somebody else write the slices while the driver does.
func (s *soak) foreignWrites() {
	i, n := s.pick(len(s.host.cards)), 2+s.pick(4)
	s.note("somebody writes the slices while the port of %d flaps %d times", i, n)
	s.fault("foreign writes of all slices", n)
	for range n {
		s.flip(i)
		s.TouchSlices()
	}
}
