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
		fd, err := mountSysfs()
		if err != nil {
			return fmt.Errorf("mount the sysfs of network namespace %s: %w", n, err)
		}
		defer unix.Close(fd)
		return f(os.DirFS(fmt.Sprintf("/proc/self/fd/%d", fd)))
	})
}

// mountSysfs returns a descriptor of a mount for the thread's namespace.
func mountSysfs() (int, error) {
	made, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(made)
	if err := unix.FsconfigCreate(made); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	const attributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	fd, err := unix.Fsmount(made, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return fd, nil
}
