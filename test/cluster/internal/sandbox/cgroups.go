package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// daemonsDir is the child of the cluster's cgroup in which its daemons live, since in
// version 2 a cgroup that hands out controllers may hold no process. Inside, the
// cgroup namespace shows the cluster's cgroup as the root, so that the kubelet's
// /kubepods are below it.
const daemonsDir = "daemons"

// Hierarchy is one cgroup hierarchy of the host and the cluster's place in it. It is
// found before the cluster starts and kept until it has gone, because a later
// program may be in another cgroup.
type Hierarchy struct {
	// Name is the name of the cluster's cgroup.
	Name string `json:"name"`
	// Mount is where it is mounted.
	Mount string `json:"mount"`
	// Controllers are version 1's mount options ("cpu", "name=systemd");
	// empty for version 2.
	Controllers string `json:"controllers,omitempty"`
	// V2 says that it is the unified hierarchy, Only that there is no other:
	// the controllers are then to be had from it.
	V2   bool `json:"v2,omitempty"`
	Only bool `json:"only,omitempty"`
	// Current is the cgroup of the process that brings the cluster up.
	Current string `json:"current"`
	// Delegated are the controllers that version 2's root did not hand out
	// before.
	Delegated []string `json:"delegated,omitempty"`
}

// FindHierarchies lists the host's cgroup mounts below /sys/fs/cgroup, for a cluster whose
// cgroup is to have the given name.
func FindHierarchies(name string) ([]Hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("list the cgroup mounts: %w", err)
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find our own cgroup: %w", err)
	}
	found := parseHierarchies(string(mounts), string(self))
	if len(found) == 0 {
		return nil, errors.New("find a cgroup hierarchy below /sys/fs/cgroup: none is mounted")
	}
	for i, h := range found {
		found[i].Name = name
		if found[i].Delegated, err = h.undelegated(h.Mount); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// parseHierarchies reads /proc/self/mounts and /proc/self/cgroup.
func parseHierarchies(mounts, self string) []Hierarchy {
	current := map[string]string{}
	for line := range strings.Lines(self) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for _, controller := range strings.Split(f[1], ",") {
				current[controller] = f[2]
			}
		}
	}
	var found []Hierarchy
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[1], "/sys/fs/cgroup") {
			continue
		}
		switch f[2] {
		case "cgroup2":
			found = append(found, Hierarchy{Mount: f[1], V2: true, Current: current[""]})
		case "cgroup":
			controllers := slices.DeleteFunc(strings.Split(f[3], ","), func(option string) bool {
				_, known := current[option]
				return !known
			})
			if len(controllers) > 0 {
				found = append(found, Hierarchy{Mount: f[1], Controllers: strings.Join(controllers, ","), Current: current[controllers[0]]})
			}
		}
	}
	if len(found) == 1 {
		found[0].Only = found[0].V2
	}
	return found
}

// dir is the cluster's cgroup in the hierarchy. In version 1 it is a child of our
// own, so that limits on us hold for the cluster; in version 2 a cgroup with
// processes may have no such child, so it is a child of the root.
func (h Hierarchy) dir() string {
	if h.V2 {
		return filepath.Join(h.Mount, h.Name)
	}
	return filepath.Join(h.Mount, h.Current, h.Name)
}

// EnterCgroups makes the cluster's cgroups, moves the calling process into them, and
// starts the program again, with the given arguments and environment, in a cgroup
// namespace rooted there. It returns only on an error.
//
// From here on, whatever the user's umask is, all users can read what the cluster makes: a pod in a user namespace looks
// at cgroups as one of them.
func EnterCgroups(hierarchies []Hierarchy, argv, env []string) error {
	unix.Umask(0o022)
	for _, h := range hierarchies {
		if err := h.enter(""); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	for _, h := range hierarchies {
		if err := h.enter(daemonsDir); err != nil {
			return err
		}
		if err := h.delegate(h.dir()); err != nil {
			return err
		}
	}
	return fmt.Errorf("start %q again: %w", argv[0], syscall.Exec("/proc/self/exe", argv, env))
}

// enter moves the calling process into the cluster's cgroup or a child of it.
func (h Hierarchy) enter(child string) error {
	if err := h.delegate(h.Mount); err != nil {
		return err
	}
	dir := filepath.Join(h.dir(), child)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := h.inheritCpuset(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("enter cgroup %q: %w", dir, err)
	}
	return nil
}

// inheritCpuset copies version 1's CPUs and memory nodes from the parent: a new
// cpuset is empty and takes no process.
func (h Hierarchy) inheritCpuset(dir string) error {
	if !slices.Contains(strings.Split(h.Controllers, ","), "cpuset") {
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return fmt.Errorf("read the parent's cpuset: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return fmt.Errorf("set the cpuset: %w", err)
		}
	}
	return nil
}

// mountSys gives the network namespace its own sysfs, with the cgroup hierarchies
// mounted anew so that they show the cgroup namespace's root.
func mountSys(hierarchies []Hierarchy, wholeMachine bool) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if wholeMachine {
		// The network's sysfs is there already, and nothing is mounted over itself.
		if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount the machine's %q: %w", "/sys", err)
		}
	}
	if err := mount("sysfs", "/sys", "sysfs", flags, ""); err != nil {
		return err
	}
	if len(hierarchies) > 1 {
		if err := mount("tmpfs", "/sys/fs/cgroup", "tmpfs", flags, "mode=0755"); err != nil {
			return err
		}
	}
	for _, h := range hierarchies {
		if err := os.MkdirAll(h.Mount, 0o755); err != nil {
			return err
		}
		fstype, options := "cgroup", h.Controllers
		if h.V2 {
			fstype, options = "cgroup2", ""
		}
		if strings.HasPrefix(options, "name=") {
			options = "none," + options
		}
		if err := mount("cgroup", h.Mount, fstype, flags, options); err != nil {
			return err
		}
	}
	return nil
}
