package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// delegate makes every controller of a version 2 cgroup available to its children.
func (h Hierarchy) delegate(dir string) error {
	missing, err := h.undelegated(dir)
	if err != nil {
		return err
	}
	for _, controller := range missing {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("delegate controller %q: %w (a cgroup with processes hands out none: "+
				"in a container, move its processes from %s to a child of it first)", controller, err, dir)
		}
		if err != nil {
			return fmt.Errorf("delegate controller %q: %w", controller, err)
		}
	}
	return nil
}

// undelegated lists the controllers that a version 2 cgroup has and its children have
// not.
func (h Hierarchy) undelegated(dir string) ([]string, error) {
	if !h.Only {
		return nil, nil
	}
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("list the cgroup controllers: %w", err)
	}
	enabled, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil, fmt.Errorf("list the delegated cgroup controllers: %w", err)
	}
	have := strings.Fields(string(enabled))
	return slices.DeleteFunc(strings.Fields(string(available)), func(controller string) bool {
		return slices.Contains(have, controller)
	}), nil
}

// undelegate takes back what delegate gave to the root's children. A controller that
// another cgroup has come to use meanwhile stays.
func (h Hierarchy) undelegate() error {
	for _, controller := range h.Delegated {
		err := os.WriteFile(filepath.Join(h.Mount, "cgroup.subtree_control"), []byte("-"+controller), 0o644)
		if err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("take back controller %q: %w", controller, err)
		}
	}
	return nil
}

// RemoveCgroups removes the cluster's cgroups from the given hierarchies, waiting until
// timeout for the kernel to let go of processes that have just died.
func RemoveCgroups(hierarchies []Hierarchy, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for _, h := range hierarchies {
		if err := h.remove(deadline); err != nil {
			return fmt.Errorf("remove the cluster's cgroup: %w", err)
		}
	}
	return nil
}

func (h Hierarchy) remove(deadline time.Time) error {
	for {
		err := removeTree(h.dir())
		if err == nil {
			return h.undelegate()
		}
		// There is no event for "the last process has left".
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// removeTree removes a cgroup and its descendants, the deepest first.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			return &os.PathError{Op: "rmdir", Path: d, Err: err}
		}
	}
	return nil
}
