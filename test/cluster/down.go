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
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/supervisor"
)

// downTimeout bounds the kernel's work after process 1 has been killed.
const downTimeout = 30 * time.Second

// Down ends the cluster and removes everything but the cache of programs; with keep,
// the state directory stays, to be read. It is no error that no cluster runs:
// what a killed one left behind is removed.
func Down(ctx context.Context, o Options, keep bool) error {
	o.HostRoot = ""
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
	if err == nil {
		if err := killAndWait(pid); err != nil {
			return err
		}
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

// cleanUp removes what outlives the processes: cgroups, the mount point in the
// fixture host, the state directory.
func (l layout) cleanUp(keep bool) error {
	if err := sandbox.RemoveCgroups(downTimeout); err != nil {
		return err
	}
	if err := l.removeFixtureDev(); err != nil {
		return err
	}
	if keep {
		return nil
	}
	if err := l.checkOurs(); err != nil {
		return err
	}
	if err := os.RemoveAll(l.StateDir); err != nil {
		return fmt.Errorf("remove the state directory: %w", err)
	}
	return nil
}

// markerFile marks a state directory as ours, so that a slip of the pen in --state-dir
// removes nothing else.
const markerFile = ".dra-driver-rdma-cluster"

func (l layout) checkOurs() error {
	entries, err := os.ReadDir(l.StateDir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state directory: %w", err)
	}
	if _, err := os.Stat(l.state(markerFile)); err != nil {
		return fmt.Errorf("remove the state directory: %q holds files that are not a cluster's: name an empty or a new one", l.StateDir)
	}
	return nil
}

// madeDevFile names, in the state directory, the mount point that we made in the
// fixture host.
const madeDevFile = "made-dev"

// makeFixtureDev makes the mount point of the private /dev in the fixture host.
func (l layout) makeFixtureDev() error {
	if l.HostRoot == "" {
		return nil
	}
	dev := filepath.Join(l.HostRoot, "dev")
	err := os.Mkdir(dev, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the fixture host's mount point: %w", err)
	}
	return os.WriteFile(l.state(madeDevFile), []byte(dev), 0o600)
}

func (l layout) removeFixtureDev() error {
	dev, err := os.ReadFile(l.state(madeDevFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Remove(string(dev)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the fixture host's mount point: %w", err)
	}
	return os.Remove(l.state(madeDevFile))
}
