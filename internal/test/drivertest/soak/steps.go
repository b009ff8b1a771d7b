package soak

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// step is something that happens to a node.
type step struct {
	name   string
	weight int // how often, beside the others
	do     func(*soak)
}

// steps are what can happen.
var steps = []step{
	{"prepare", 20, (*soak).prepareOne},
	{"prepare many at once", 6, (*soak).prepareMany},
	{"prepare again", 8, (*soak).prepareAgain},
	{"prepare what is taken", 4, (*soak).prepareTaken},
	{"unprepare", 18, (*soak).unprepareOne},
	{"unprepare the unknown", 2, (*soak).unprepareUnknown},
	{"kill", 4, (*soak).killNow},
	{"kill in a call", 8, (*soak).killInCall},
	{"stop and start", 2, (*soak).restart},
	{"rolling update", 2, (*soak).rollingUpdate},
	{"kubelet restarts", 2, (*soak).kubeletRestarts},
	{"port flaps", 6, (*soak).flap},
	{"storm of flaps", 1, (*soak).storm},
	{"all drivers are loaded anew", 1, (*soak).reload},
	{"names move", 6, (*soak).namesMove},
	{"names move in calls", 4, (*soak).namesMoveInCalls},
	{"device goes or comes", 6, (*soak).goOrCome},
	{"specs are removed", 4, (*soak).removeSpecs},
	{"claim is deleted by force", 2, (*soak).forceDelete},
	{"claim is deleted under its pod", 2, (*soak).deleteInUse},
	{"claim is made anew under its name", 3, (*soak).makeAnew},
	{"claim is deallocated", 3, (*soak).deallocate},
	{"API trouble begins", 3, (*soak).troubleBegins},
	{"API trouble ends", 8, (*soak).troubleEnds},
	{"connections are cut", 2, (*soak).cut},
	{"API server restarts", 1, (*soak).serverRestarts},
	{"others write slices", 2, (*soak).foreignWrites},
}

// choose chooses a step.
func choose(random *rand.Rand) step {
	total := 0
	for _, k := range steps {
		total += k.weight
	}
	at := random.IntN(total)
	for _, k := range steps {
		if at -= k.weight; at < 0 {
			return k
		}
	}
	panic("the weights do not add up")
}

// pick returns one of a number of things.
func (s *soak) pick(n int) int { return s.random.IntN(n) }

// callContext is how long the kubelet waits: not long for a server that is away, which
// the client tries again for ten seconds.
func (s *soak) callContext() (context.Context, context.CancelFunc) {
	if s.trouble != nil && s.trouble.harms {
		return context.WithTimeout(context.Background(), time.Second)
	}
	return context.WithTimeout(context.Background(), patience)
}

// check compares the outcome of a Prepare with what it must be.
func (s *soak) check(a *allocation, err error) {
	s.t.Helper()
	troubled := s.trouble != nil && s.trouble.harms
	switch {
	case errors.Is(err, errChanged):
		s.t.Errorf("claim %s: %v", a.claim.Name, err)
	case err != nil && a.there(s.host) && !troubled && !a.deleted:
		s.t.Errorf("claim %s is not prepared: %v", a.claim.Name, err)
	case err == nil && (!a.there(s.host) || troubled || a.deleted):
		s.t.Errorf("claim %s is prepared, with its HCAs there: %v, the API server in trouble: %v, the claim deleted: %v", a.claim.Name, a.there(s.host), troubled, a.deleted)
	}
}

// allocation makes a claim of one HCA, or of two alike, that the scheduler may give away.
// It takes one that is away but rarely, as the call then waits for it.
func (s *soak) allocation() *allocation {
	free := s.free(len(s.host.cards))
	if len(free) == 0 {
		return nil
	}
	card := free[s.pick(len(free))]
	if s.host.cards[card].gone && s.pick(8) > 0 {
		return nil
	}
	cards := []int{card}
	if other := free[s.pick(len(free))]; other != card && shared(other) == shared(card) && !s.host.cards[other].gone {
		cards = append(cards, other)
	}
	a := s.allocate(s.host, cards...)
	s.Allocate(a.claim)
	return a
}

func (s *soak) prepareOne() {
	a := s.allocation()
	if a == nil {
		return
	}
	s.note("prepare %s: %v", a.claim.Name, a.cards)
	ctx, cancel := s.callContext()
	defer cancel()
	s.check(a, s.ask(ctx, 0, a))
}

func (s *soak) prepareMany() {
	var all []*allocation
	for range 4 {
		if a := s.allocation(); a != nil {
			all = append(all, a)
			s.note("prepare at once %s: %v", a.claim.Name, a.cards)
		}
	}
	ctx, cancel := s.callContext()
	defer cancel()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, a := range all {
		wg.Go(func() { errs[i] = s.ask(ctx, 0, a) })
	}
	wg.Wait()
	for i, a := range all {
		s.check(a, errs[i])
	}
}

func (s *soak) prepareAgain() {
	if len(s.claims) == 0 {
		return
	}
	a := s.claims[s.pick(len(s.claims))]
	if !a.there(s.host) && s.pick(8) > 0 {
		return
	}
	s.note("prepare again %s: %v, prepared %v", a.claim.Name, a.cards, a.prepared)
	ctx, cancel := s.callContext()
	defer cancel()
	s.check(a, s.ask(ctx, 0, a))
}

// prepareTaken asks for an HCA that another claim has, as a scheduler with a bug does.
func (s *soak) prepareTaken() {
	if len(s.claims) == 0 {
		return
	}
	holder := s.claims[s.pick(len(s.claims))]
	if !holder.prepared || shared(holder.cards[0]) || !holder.there(s.host) {
		return
	}
	thief := s.allocate(s.host, holder.cards[0])
	s.Allocate(thief.claim)
	s.note("prepare %s, which %s has: %v", thief.claim.Name, holder.claim.Name, thief.cards)
	ctx, cancel := s.callContext()
	defer cancel()
	test.Error(s.t, s.ask(ctx, 0, thief),
		test.Sprintf("claim %s got what claim %s has", thief.claim.Name, holder.claim.Name))
	s.finish(thief)
}

// finish unprepares a claim, which needs no API server and no device.
func (s *soak) finish(a *allocation) {
	s.t.Helper()
	s.mustUnprepare(a)
	s.forget(a)
}

func (s *soak) mustUnprepare(a *allocation) {
	s.t.Helper()
	test.NoError(s.t, s.unprepare(a), test.Sprintf("claim %s is not unprepared", a.claim.Name))
}

// forget is the end of a claim that is not prepared.
func (s *soak) forget(a *allocation) {
	s.end(a)
	if !a.deleted {
		s.RemoveClaim(a.claim)
	}
}

func (s *soak) unprepare(a *allocation) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	response, err := s.Unprepare(ctx, a.claim)
	if err != nil {
		return err
	}
	if answer := response.Claims[string(a.claim.UID)]; answer.GetError() != "" {
		return errors.New(answer.Error)
	}
	return nil
}

func (s *soak) unprepareOne() {
	if len(s.claims) == 0 {
		return
	}
	a := s.claims[s.pick(len(s.claims))]
	s.note("unprepare %s: %v", a.claim.Name, a.cards)
	s.finish(a)
}

func (s *soak) unprepareUnknown() {
	a := s.allocate(s.host, 0)
	s.note("unprepare the unknown %s", a.claim.Name)
	s.finish(a)
}

func (s *soak) killNow() {
	s.note("kill and start")
	s.kill()
	s.launch()
}

// killInCall kills the driver while it prepares, prepares again and ends claims.
func (s *soak) killInCall() {
	calls := map[*allocation]bool{} // to prepare, else to unprepare
	for range 3 {
		if a := s.allocation(); a != nil && a.there(s.host) {
			calls[a] = true
		}
	}
	for _, a := range s.claims {
		if !calls[a] && !a.deleted && s.pick(3) == 0 && a.there(s.host) {
			calls[a] = s.pick(2) == 0
		}
	}
	moment := time.Duration(s.random.Int64N(int64(6 * time.Millisecond)))
	s.note("kill in %d calls after %v", len(calls), moment)
	ctx, cancel := s.callContext()
	defer cancel()
	var wg sync.WaitGroup
	var ended sync.Map
	for a, toPrepare := range calls {
		wg.Go(func() {
			if toPrepare {
				_ = s.ask(ctx, 0, a) // it may die
				return
			}
			if s.unprepare(a) == nil {
				ended.Store(a, true)
			}
		})
	}
	time.Sleep(moment) // that is the moment
	s.fault("kills of the driver", 1)
	s.driver.Kill()
	wg.Wait()
	for a, toPrepare := range calls {
		if _, ok := ended.Load(a); ok {
			s.forget(a)
		} else if !toPrepare {
			a.prepared = false // nobody knows
		}
	}
	s.Disconnect()
	s.launch()
}

func (s *soak) restart() {
	s.note("stop and start")
	s.stop(s.driver)
	s.WaitForPlugins(0)
	s.launch()
}

// stop asks a driver to stop.
func (s *soak) stop(p *drivertest.Process) {
	s.t.Helper()
	s.fault("stops of the driver", 1)
	if code := p.Terminate(); code != 0 {
		s.t.Errorf("the driver stopped with exit code %d: %s", code, p.Output())
	}
}

// rollingUpdate runs two drivers at once and asks both.
func (s *soak) rollingUpdate() {
	s.note("rolling update")
	old, oldPod := s.driver, s.pod
	s.newPod()
	s.launch()
	ctx, cancel := s.callContext()
	defer cancel()
	var wg sync.WaitGroup
	var errs [2]error
	var asked [2]*allocation
	for i := range asked {
		if a := s.allocation(); a != nil {
			asked[i] = a
			wg.Go(func() { errs[i] = s.ask(ctx, i, a) })
		}
	}
	wg.Wait()
	for i, a := range asked {
		if a != nil {
			s.check(a, errs[i])
		}
	}
	s.stop(old)
	s.WaitForPlugins(1)
	s.RemovePod(oldPod.uid)
}

func (s *soak) kubeletRestarts() {
	s.note("the kubelet restarts")
	s.fault("restarts of the kubelet", 1)
	s.WipeSlices()
	s.Restart()
}

// removeSpecs removes the spec of one claim, or all.
func (s *soak) removeSpecs() {
	some := s.known().Prepared
	if len(some) > 0 && s.pick(2) == 0 {
		i := s.pick(len(some))
		some = some[i : i+1]
	}
	s.note("specs of %d claims are removed", len(some))
	s.fault("specs that were removed", len(some))
	for _, claim := range some {
		// There is none while an HCA of the claim is away.
		if err := os.Remove(drivertest.SpecPath(s.CDIDir, claim)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Fatal(err)
		}
	}
}

// forceDelete deletes a claim while the driver is away; no call will end it.
func (s *soak) forceDelete() {
	s.troubleEnds()
	if len(s.claims) == 0 {
		return
	}
	a := s.claims[s.pick(len(s.claims))]
	s.note("%s is deleted by force: %v", a.claim.Name, a.cards)
	s.fault("claims that were deleted by force", 1)
	s.kill()
	s.forget(a)
	s.listPods()
	s.launch()
}

// deleteInUse deletes a claim whose pod goes on, while the driver is away: the pod keeps its
// devices.
func (s *soak) deleteInUse() {
	s.troubleEnds()
	if len(s.claims) == 0 {
		return
	}
	a := s.claims[s.pick(len(s.claims))]
	if !a.prepared || a.deleted {
		return
	}
	s.note("%s is deleted by force under its pod: %v", a.claim.Name, a.cards)
	s.fault("claims that were deleted by force", 1)
	s.listPods()
	s.kill()
	s.RemoveClaim(a.claim)
	a.deleted = true
	s.launch()
}
