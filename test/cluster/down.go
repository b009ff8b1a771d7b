package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/progress"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/supervisor"
)

// downTimeout bounds the kernel's work after process 1 has been killed.
const downTimeout = 30 * time.Second

// Down ends the cluster and removes everything but the cache of programs; with keep,
// the state directory stays, to be read. It is no error that no cluster runs:
// what a killed one left behind is removed.
func Down(ctx context.Context, o Options, keep bool) error {
	o, err := o.complete()
	if err != nil {
		return err
	}
	l := layout{Options: o}
	unlock, err := l.operate(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	log := progress.New(o.Progress)
	if err := l.takeDown(keep); err != nil {
		return fmt.Errorf("take the cluster down: %w", err)
	}
	log.Step("down: nothing is left of the cluster in %s", l.StateDir)
	return nil
}

// takeDown kills process 1, and with it everything in its namespaces, and cleans up.
func (l layout) takeDown(keep bool) error {
	pid, err := supervisor.NewClient(l.StateDir).Pid(context.Background())
	if err != nil {
		// Somebody may have removed the state directory under a running cluster,
		// which then made parts of it again.
		if pid = l.recordedPid(); pid != 0 {
			if err := l.mark(); err != nil {
				return err
			}
		}
	}
	if pid != 0 {
		if err := killAndWait(pid); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(l.CacheDir, l.runningLock())); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the lock: %w", err)
	}
	return l.cleanUp(keep)
}

// killAndWait kills a process that is not our child and waits for its end.
func killAndWait(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	deadline := time.Now().Add(downTimeout)
	for time.Now().Before(deadline) {
		left := int(time.Until(deadline).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, left)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
	}
	return fmt.Errorf("wait for process %d: still there after %s", pid, downTimeout)
}
