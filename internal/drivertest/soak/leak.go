package soak

import (
	"fmt"
	"os"
	"regexp"
	"syscall"
	"time"
)

// checkLeaks runs a driver through trouble without a kill, and compares the
// descriptors and goroutines that it has then with those of one that has just started
// and done the same once.
func (s *soak) checkLeaks() {
	s.t.Helper()
	s.calm()
	s.exercise(1)
	wantFDs, wantRoutines := s.descriptors(), s.goroutines()
	s.Disconnect()
	s.launch()
	s.exercise(5)
	began := time.Now()
	fds := s.descriptors()
	for ; fds > wantFDs+2 && time.Since(began) < patience; fds = s.descriptors() {
		time.Sleep(10 * time.Millisecond) // connections that nobody uses are closed after a while
	}
	if routines := s.goroutines(); fds > wantFDs+2 || routines > wantRoutines+10 {
		s.t.Errorf("after five times the work the driver has %d descriptors and %d goroutines, and %d and %d after it once", fds, routines, wantFDs, wantRoutines)
	}
	s.t.Logf("%d descriptors, %d after five times the work; %d goroutines", wantFDs, fds, wantRoutines)
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
		for _, do := range []func(){s.prepareMany, s.prepareAgain, s.prepareTaken, s.flap, s.flap, s.namesMove, s.removeSpecs, s.kubeletRestarts} {
			do()
			s.atRest()
		}
		for len(s.claims) > 0 {
			s.finish(s.claims[0])
		}
		s.atRest()
	}
}

func (s *soak) descriptors() int {
	s.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.driver.PID()))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(entries)
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
