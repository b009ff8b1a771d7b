package rdmanetns

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Sysfs calls f with the sysfs of the namespace: the kernel shows there the RDMA devices and network interfaces that a
// pod in the namespace sees. The sysfs is mounted nowhere, so no other process sees it (fsmount(2), Linux 5.2).
func (n *Namespace) Sysfs(f func(fs.FS) error) error {
	return n.Do(func() error {
		fd, err := mount("sysfs", unix.MOUNT_ATTR_RDONLY)
		if err != nil {
			return fmt.Errorf("mount the sysfs of network namespace %s: %w", n, err)
		}
		defer unix.Close(fd)
		return f(os.DirFS(fmt.Sprintf("/proc/self/fd/%d", fd)))
	})
}

// Sysctls opens the settings below /proc/sys/net of the thread's namespace, to read and to write. A container's own
// /proc/sys is read-only, so Sysctls uses a procfs that is mounted nowhere. It needs CAP_SYS_ADMIN. Writing also needs
// CAP_NET_ADMIN. The caller must use the result on the same thread, and must close it.
func Sysctls() (*os.Root, error) {
	fd, err := mount("proc", 0)
	if err != nil {
		return nil, fmt.Errorf("mount a procfs: %w", err)
	}
	defer unix.Close(fd)
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d/sys/net", fd))
}

// mount returns a descriptor of a new mount of a file system for the thread's namespace.
func mount(kind string, attributes int) (int, error) {
	made, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(made)
	if err := unix.FsconfigCreate(made); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	attributes |= unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	fd, err := unix.Fsmount(made, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return fd, nil
}
