package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// nodes are the character devices of a minimal /dev; the kubelet reads kmsg.
var nodes = []struct {
	name         string
	mode         uint32
	major, minor uint32
}{
	{"null", 0o666, 1, 3},
	{"zero", 0o666, 1, 5},
	{"full", 0o666, 1, 7},
	{"random", 0o666, 1, 8},
	{"urandom", 0o666, 1, 9},
	{"kmsg", 0o600, 1, 11},
	{"tty", 0o666, 5, 0},
}

var devLinks = map[string]string{
	"/dev/fd":     "/proc/self/fd",
	"/dev/stdin":  "/proc/self/fd/0",
	"/dev/stdout": "/proc/self/fd/1",
	"/dev/stderr": "/proc/self/fd/2",
	"/dev/ptmx":   "pts/ptmx",
}

// mountDev makes a /dev without any device of the host's, unless the sandbox has the
// whole machine.
func mountDev(wholeMachine bool) error {
	if wholeMachine {
		return nil
	}
	if err := tmpfs("/dev", "mode=0755"); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := mknod("/dev/"+n.name, n.mode, n.major, n.minor); err != nil {
			return err
		}
	}
	for link, target := range devLinks {
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/infiniband"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"),
		mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		mount("mqueue", "/dev/mqueue", "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
	)
}

// makeFixtureNodes gives the fixture host below root its device nodes, in the private
// /dev, and shows that /dev as the fixture's own. RDMA classes are found as
// the kernel lays them out: every entry has a "dev" file with major:minor.
func makeFixtureNodes(root string) error {
	for _, pattern := range []string{"infiniband_verbs/*", "infiniband_mad/*", "misc/rdma_cm"} {
		devs, err := filepath.Glob(filepath.Join(root, "sys/class", pattern, "dev"))
		if err != nil {
			return err
		}
		for _, dev := range devs {
			if err := makeFixtureNode(dev); err != nil {
				return err
			}
		}
	}
	if err := bind("/dev", filepath.Join(root, "dev")); err != nil {
		return err
	}
	cgroups := filepath.Join(root, "sys/fs/cgroup")
	if _, err := os.Stat(cgroups); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return bind("/sys/fs/cgroup", cgroups)
}

func makeFixtureNode(dev string) error {
	data, err := os.ReadFile(dev)
	if err != nil {
		return fmt.Errorf("read device number: %w", err)
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(string(data), "%d:%d", &major, &minor); err != nil {
		return fmt.Errorf("parse device number %q of %q: %w", data, dev, err)
	}
	name := filepath.Base(filepath.Dir(dev))
	mode := uint32(0o666)
	if strings.HasPrefix(name, "umad") || strings.HasPrefix(name, "issm") {
		mode = 0o600
	}
	return mknod("/dev/infiniband/"+name, mode, major, minor)
}

func mknod(path string, mode, major, minor uint32) error {
	if err := unix.Mknod(path, unix.S_IFCHR|mode, int(unix.Mkdev(major, minor))); err != nil {
		return fmt.Errorf("make device node %q %d:%d: %w", path, major, minor, err)
	}
	// mknod is subject to the umask.
	return os.Chmod(path, os.FileMode(mode))
}
