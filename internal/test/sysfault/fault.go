package sysfault

import (
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Fault is what shall go wrong.
type Fault struct {
	// N is which of the matching calls it is, counted from 1 at the time of Arm.
	N int
	// Match says which calls count.
	Match func(Call) bool
	// Do decides about the N-th call: the error that it returns, or 0 to let it go
	// on. The thread that calls is stopped meanwhile.
	Do func(Call) unix.Errno
	// Lasting faults hit all later calls that match as well.
	Lasting bool
}

// Error is a Do: the call fails.
func Error(errno unix.Errno) func(Call) unix.Errno {
	return func(Call) unix.Errno { return errno }
}

// Kill is a Do: the program is killed instead of the call (kill -9).
func Kill(c Call) unix.Errno {
	if err := unix.Kill(c.PID, unix.SIGKILL); err != nil {
		return 0 // it was killed by somebody else
	}
	return unix.EINTR // which nobody sees: the signal comes first
}

// Below is a Match: calls on a path in one of the directories, or on them.
func Below(dirs ...string) func(Call) bool {
	return func(c Call) bool {
		for _, dir := range dirs {
			if within(dir, c.Path) || c.To != "" && within(dir, c.To) {
				return true
			}
		}
		return false
	}
}

func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// Shot is an armed fault.
type Shot struct {
	fault Fault
	s     *Supervisor

	mu    sync.Mutex
	calls []Call
	fired bool
	ended int            // the calls that had come when the last Do was over
	over  bool           // it was disarmed
	doing sync.WaitGroup // the Dos that run
}

// Arm makes a fault happen, in place of one that was armed before.
func (s *Supervisor) Arm(f Fault) *Shot {
	shot := &Shot{fault: f, s: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shot = shot
	return shot
}

// Disarm ends the fault, and waits for a Do that runs: any thread of a program may have made the call. Calls go on from
// here.
func (shot *Shot) Disarm() {
	shot.mu.Lock()
	shot.over = true
	shot.mu.Unlock()
	shot.s.mu.Lock()
	if shot.s.shot == shot {
		shot.s.shot = nil
	}
	shot.s.mu.Unlock()
	shot.doing.Wait()
}

// Fired returns the call that was hit, and whether one was.
func (shot *Shot) Fired() (Call, bool) {
	shot.mu.Lock()
	defer shot.mu.Unlock()
	if !shot.fired {
		return Call{}, false
	}
	return shot.calls[shot.fault.N-1], true
}

// Ended returns how many matching calls had come when the last Do was over, 0 if none is. The thread that a Do stops
// makes none meanwhile; the other threads of the program go on.
func (shot *Shot) Ended() int {
	shot.mu.Lock()
	defer shot.mu.Unlock()
	return shot.ended
}

// Calls returns the matching calls so far.
func (shot *Shot) Calls() []Call {
	shot.mu.Lock()
	defer shot.mu.Unlock()
	return append([]Call(nil), shot.calls...)
}

// decide returns what to do with a call, nil to let it go on.
func (shot *Shot) decide(call Call) func(Call) unix.Errno {
	if !shot.fault.Match(call) {
		return nil
	}
	shot.mu.Lock()
	defer shot.mu.Unlock()
	if shot.over {
		return nil
	}
	shot.calls = append(shot.calls, call)
	n := len(shot.calls)
	hit := n == shot.fault.N || shot.fault.Lasting && n > shot.fault.N && shot.fault.N > 0
	shot.fired = shot.fired || hit
	if !hit {
		return nil
	}
	shot.doing.Add(1)
	return func(c Call) unix.Errno {
		defer shot.doing.Done()
		errno := shot.fault.Do(c)
		shot.mu.Lock()
		defer shot.mu.Unlock()
		shot.ended = len(shot.calls)
		return errno
	}
}
