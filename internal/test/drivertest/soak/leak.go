package soak

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/shoenig/test/must"
)

// checkLeaks runs a driver through work without a kill, and compares the descriptors and
// goroutines that it has then with those of one that has just started and done the same
// once.
func (s *soak) checkLeaks() {
	s.t.Helper()
	s.calm()
	s.exercise(1)
	want, wantRoutines := s.idle(0), s.goroutines()
	s.Disconnect()
	s.launch()
	s.exercise(5)
	fds := s.idle(len(want) + 2)
	routines := s.goroutines()
	if len(fds) > len(want)+2 || routines > wantRoutines+10 {
		s.t.Errorf("after five times the work the driver has %d descriptors and %d goroutines, and %d and %d after it once; the descriptors are\n%q\nand were\n%q",
			len(fds), routines, len(want), wantRoutines, fds, want)
	}
	s.t.Logf("%d descriptors, %d after five times the work; %d goroutines, %d then", len(want), len(fds), wantRoutines, routines)
}

// calm ends all claims and all trouble.
func (s *soak) calm() {
	s.t.Helper()
	s.troubleEnds()
	for len(s.claims) > 0 {
		s.finish(s.claims[0])
	}
	for i := range s.host.cards {
		s.host.cards[i].down = false
		if s.host.cards[i].gone {
			s.host.goOrCome(i)
		}
	}
	s.host.apply(s.Worker)
	s.kill()
	s.launch()
	s.atRest()
}

// exercise does some of each kind of work that needs no new driver, and leaves nothing.
func (s *soak) exercise(times int) {
	s.t.Helper()
	for range times {
		for _, do := range []func(){s.cut, s.prepareMany, s.prepareAgain, s.prepareTaken, s.flap, s.flap, s.namesMove, s.removeSpecs, s.kubeletRestarts} {
			do()
			s.atRest()
		}
		for len(s.claims) > 0 {
			s.finish(s.claims[0])
		}
		s.atRest()
	}
}

// idle waits until the driver has no more than so many descriptors, for as long as a
// connection may need to end, and returns them; 0 is for whatever it has. How many connections to the
// API server a client keeps for later depends on what it asked at the same time: they are cut before each look.
func (s *soak) idle(most int) []string {
	s.t.Helper()
	for began := time.Now(); ; {
		s.proxy.Cut()
		s.flap()
		s.flap()
		s.atRest()
		fds := s.descriptors()
		if len(fds) <= most || most == 0 || time.Since(began) > patience {
			return fds
		}
	}
}

// descriptors are what the descriptors of the driver are of.
func (s *soak) descriptors() []string {
	s.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", s.driver.PID())
	entries, err := os.ReadDir(dir)
	must.NoError(s.t, err)
	var out []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed since it was listed
		}
		must.NoError(s.t, err)
		out = append(out, target)
	}
	return out
}

var goroutineLine = regexp.MustCompile(`(?m)^goroutine \d+ `)

// goroutines ends the driver by SIGQUIT, at which a Go program says what all of its
// goroutines do, and counts them.
func (s *soak) goroutines() int {
	s.t.Helper()
	s.driver.Signal(syscall.SIGQUIT)
	s.driver.Wait()
	return len(goroutineLine.FindAllString(s.driver.Output(), -1))
}
