package supervisor

import (
	"fmt"
	"syscall"
)

// reapOne collects one ended child, if there is one: a component, or an orphan that
// process 1 inherits (container shims above all). Holding the mutex across wait4
// keeps it from collecting a component before start has recorded it.
func (s *Server) reapOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	for _, p := range s.procs {
		if p.Pid == pid {
			p.Pid, p.Ended = 0, describe(status)
			close(p.done)
		}
	}
	return true
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("killed by %s", status.Signal())
	}
	return fmt.Sprintf("exited with status %d", status.ExitStatus())
}
