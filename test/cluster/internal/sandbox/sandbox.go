// Package sandbox makes the world in which the embedded cluster runs: namespaces of
// its own (mount, network, PID, IPC, UTS, cgroup) in which its daemons find the
// default paths they expect, while the host's files, sysctls, network, cgroups
// and RDMA devices stay untouched.
//
// Inside, / is the host's, with these differences: /etc, /var and /opt are
// overlays whose changes go to memory (those of a whole machine to the state
// directory); /run, /dev, /sys and /proc are new;
// the kubelet's directory and /var/lib/containerd come from the state directory;
// /proc/sys is read-only but for /proc/sys/net, which is the namespace's own.
//
// Process 1 enters in two steps, each a fresh start of the same program, because a
// Go program cannot change the cgroup namespace of all its threads: EnterCgroups,
// then Setup. Join brings other programs in.
package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Config describes the sandbox.
type Config struct {
	// StateDir is the cluster's state directory, an absolute path.
	StateDir string `json:"stateDir"`
	// HostRoot is the fixture host's directory, or empty.
	HostRoot string `json:"hostRoot,omitempty"`
	// KubeletDir is the kubelet's root directory.
	KubeletDir string `json:"kubeletDir"`
	// WholeMachine keeps the machine's own network and /dev, and all changes of files on the disk.
	WholeMachine bool `json:"wholeMachine,omitempty"`
	// Keep lists directories that stay visible at their path even where a new
	// mount covers it (the cache, the checkout).
	Keep []string `json:"keep,omitempty"`
	// Hostname is the node's name.
	Hostname string `json:"hostname"`
	// NodeAddr is the node's address with its prefix length, ServiceAddr the
	// API server's service address, empty where that is on another machine.
	NodeAddr    string `json:"nodeAddr"`
	ServiceAddr string `json:"serviceAddr"`
	// Cgroups are the host's cgroup hierarchies.
	Cgroups []Hierarchy `json:"cgroups"`
}

// namespaces are those of a sandbox.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Namespaces are the clone flags for the supervisor. The whole machine includes its
// network.
func Namespaces(wholeMachine bool) uintptr {
	if wholeMachine {
		return namespaces &^ unix.CLONE_NEWNET
	}
	return namespaces
}

// Setup turns the namespaces that the calling process was cloned into into the
// sandbox. It is called once, by process 1, after EnterCgroups.
func Setup(c Config) error {
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("set the hostname: %w", err)
	}
	if err := mountAll(c); err != nil {
		return fmt.Errorf("set up the mounts: %w", err)
	}
	if err := setupNetwork(c); err != nil {
		return fmt.Errorf("set up the network: %w", err)
	}
	if c.HostRoot != "" {
		if err := makeFixtureNodes(c.HostRoot); err != nil {
			return fmt.Errorf("set up the fixture host %q: %w", c.HostRoot, err)
		}
	}
	return os.Chdir("/")
}

// privateDirs are the directories of the state directory that appear at a default
// path inside; they are on disk because they grow, or because they are worth
// reading after the cluster is gone.
func privateDirs(c Config) map[string]string {
	return map[string]string{
		c.KubeletDir:          filepath.Join(c.StateDir, "kubelet"),
		"/var/lib/containerd": filepath.Join(c.StateDir, "containerd"),
		"/var/log/pods":       filepath.Join(c.StateDir, "logs", "pods"),
		"/var/log/containers": filepath.Join(c.StateDir, "logs", "containers"),
	}
}

// emptyDirs are directories that hold configuration on a real node: the host's
// must not be seen.
var emptyDirs = []string{
	"/etc/cdi", "/etc/cni", "/etc/containerd", "/etc/kubernetes", "/etc/nri",
	"/opt/cni", "/opt/nri", "/var/lib/cni", "/var/lib/etcd",
}

// mount wraps the system call with an error that says what was mounted where.
func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, fstype, flags, data); err != nil {
		if fstype == "" {
			fstype = "bind"
		}
		return fmt.Errorf("mount %s %q on %q: %w", fstype, source, target, err)
	}
	return nil
}

func tmpfs(target, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return mount("tmpfs", target, "tmpfs", unix.MS_NOSUID, options)
}

func bind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}
