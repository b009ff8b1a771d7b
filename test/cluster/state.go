package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/sandbox"
)

// layoutFile holds the layout of the running cluster.
const layoutFile = "cluster.json"

func readLayout(stateDir string) (layout, error) {
	l := layout{Options: Options{StateDir: stateDir}}
	data, err := os.ReadFile(l.state(layoutFile))
	if err != nil {
		return l, fmt.Errorf("read the running cluster's options: %w", err)
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("parse the running cluster's options: %w", err)
	}
	return l, nil
}

func (l layout) write() error { return l.writeJSON(layoutFile, l) }

func (l layout) writeJSON(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.state(name), data, 0o600); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return nil
}

// cleanUp removes what outlives the processes: cgroups, the mount point in the
// fixture host, the state directory.
func (l layout) cleanUp(keep bool) error {
	if err := l.removeCgroups(); err != nil {
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

// removeCgroups removes the cgroups of this state directory's cluster. Where the file that
// lists them is gone, they are found by their name.
func (l layout) removeCgroups() error {
	config, err := readSupervisorConfig(l.StateDir)
	if err == nil {
		return sandbox.RemoveCgroups(config.Sandbox.Cgroups, downTimeout)
	}
	hierarchies, err := sandbox.FindHierarchies(l.cgroup())
	if err != nil {
		return err
	}
	return sandbox.RemoveCgroups(hierarchies, downTimeout)
}

// cgroup is the name of the cluster's cgroup: clusters of different caches may run at the
// same time.
func (l layout) cgroup() string {
	return fmt.Sprintf("dra-driver-rdma-cluster-%x", sha256.Sum256([]byte(l.StateDir)))[:32]
}

// mark marks the state directory as ours.
func (l layout) mark() error {
	if err := os.MkdirAll(l.StateDir, 0o755); err != nil {
		return fmt.Errorf("create the state directory: %w", err)
	}
	if err := os.WriteFile(l.state(markerFile), nil, 0o644); err != nil {
		return fmt.Errorf("mark the state directory: %w", err)
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

// checkFixture wants a fixture host to look like one.
func (l layout) checkFixture() error {
	if l.HostRoot == "" {
		return nil
	}
	if _, err := os.Stat(l.hostRoot("sys")); err != nil {
		return fmt.Errorf("find the fixture host %q: %w", l.HostRoot, err)
	}
	return nil
}

func (l layout) hostRoot(name string) string { return filepath.Join(l.HostRoot, name) }

// makeFixtureDev makes the mount point of the private /dev in the fixture host.
func (l layout) makeFixtureDev() error {
	if l.HostRoot == "" {
		return nil
	}
	dev := l.hostRoot("dev")
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
