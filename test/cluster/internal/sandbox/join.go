package sandbox

import (
	"fmt"
	"net"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
)

// joined are the namespaces that Start enters.
const joined = namespaces | unix.CLONE_NEWCGROUP

// Start starts cmd inside the sandbox whose process 1 is pid. Its Dir and Path
// are resolved inside. The returned function waits for the end. Process 1's death
// kills the command; the caller's does not (a Pdeathsig is out of the question: Go
// kills a child that does not see its parent, as none does in another PID namespace).
// The command is waited for whether the caller does so or not: process 1 cannot end
// before all others of its namespace are.
func Start(pid int, cmd *exec.Cmd) (wait func() error, err error) {
	started := make(chan error, 1)
	go thread.Do(func() {
		// A thread that shares its root and working directory may not change
		// its mount namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			started <- fmt.Errorf("unshare the working directory: %w", err)
			return
		}
		if err := enter(pid, joined); err != nil {
			started <- err
			return
		}
		started <- cmd.Start()
	})
	if err := <-started; err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var result error
	go func() {
		result = cmd.Wait()
		close(ended)
	}()
	return func() error {
		<-ended
		return result
	}, nil
}

// Dial connects to a TCP address of the sandbox's network namespace.
func Dial(pid int, address string) (net.Conn, error) {
	var conn net.Conn
	dialed := make(chan error, 1)
	go thread.Do(func() {
		err := enter(pid, unix.CLONE_NEWNET)
		if err == nil {
			conn, err = net.Dial("tcp", address) // to one address: the socket is made by this thread
		}
		dialed <- err
	})
	err := <-dialed
	return conn, err
}

// enter moves the calling thread into namespaces of pid.
func enter(pid, which int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open the cluster's process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, which); err != nil {
		return fmt.Errorf("join the cluster's namespaces (needs root): %w", err)
	}
	return nil
}
