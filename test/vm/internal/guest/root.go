package guest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/internal/job"
)

const (
	rootDevice = "/dev/vda"
	newRoot    = "/newroot"
)

// initramfs loads the modules that the root file system needs. The kernel has unpacked
// them beside us, numbered in the order in which they are to be loaded.
func (b *boot) initramfs() error {
	for target, fstype := range map[string]string{"/proc": "proc", "/sys": "sysfs", "/dev": "devtmpfs"} {
		if err := mount(fstype, target, fstype, 0, ""); err != nil {
			return err
		}
	}
	files, err := os.ReadDir("/modules")
	if err != nil {
		return fmt.Errorf("list the initramfs' modules: %w", err)
	}
	for _, f := range files {
		if err := insert("/modules/" + f.Name()); err != nil {
			return err
		}
	}
	return nil
}

// root makes the root file system the root directory. This program goes on: it stays
// in memory, though its file is no longer to be seen.
func (b *boot) root() error {
	if err := waitFor(rootDevice); err != nil {
		return err
	}
	if err := mount(rootDevice, newRoot, "ext4", unix.MS_NOATIME, "nobarrier"); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return err
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	if err := errors.Join(unix.Chroot("."), os.Chdir("/")); err != nil {
		return fmt.Errorf("change the root directory: %w", err)
	}
	m, err := openModules()
	b.modules = m
	return err
}

// waitFor waits for a device node: the kernel finds devices in the background.
func waitFor(path string) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %q: it did not appear in 20 s", path)
		}
	}
}

// fileSystems are the mounts of an ordinary system; an optional one may be missing in
// the kernel.
var fileSystems = []struct {
	target, fstype string
	flags          uintptr
	options        string
	optional       bool
}{
	{"/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", false},
	{"/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755", false},
	{"/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666", false},
	{"/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", false},
	{"/dev/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "nsdelegate", false},
	{"/sys/kernel/debug", "debugfs", 0, "", true},
	{"/sys/fs/bpf", "bpf", 0, "", true},
}

// mounts makes it look like a system after its boot.
func (b *boot) mounts() error {
	for _, fs := range fileSystems {
		if err := mount(fs.fstype, fs.target, fs.fstype, fs.flags, fs.options); err != nil && !fs.optional {
			return err
		}
	}
	for link, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, link); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, dir := range []string{"/run/lock", "/run/cdi", "/run/netns"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// Mounts are shared on a system that systemd has started, and container runtimes
	// count on it.
	if err := mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(job.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return delegate("/sys/fs/cgroup")
}

// delegate hands the root cgroup's controllers to its children, as systemd does, the
// RDMA controller included.
func delegate(dir string) error {
	available, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil {
		return fmt.Errorf("list the cgroup controllers: %w", err)
	}
	controllers := "+" + strings.Join(strings.Fields(string(available)), " +")
	if err := os.WriteFile(dir+"/cgroup.subtree_control", []byte(controllers), 0o644); err != nil {
		return fmt.Errorf("delegate the cgroup controllers %q: %w", controllers, err)
	}
	return nil
}
