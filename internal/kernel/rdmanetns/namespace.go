package rdmanetns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
)

// Namespace is an open network namespace: it does not end before Close.
type Namespace struct {
	path string
	file *os.File
	id   [2]uint64 // device and inode, which identify the namespace
}

// ErrEnded is the error for a path without a namespace: the namespace has ended, or never existed. It is an
// fs.ErrNotExist.
var ErrEnded = fmt.Errorf("there is no network namespace: %w", fs.ErrNotExist)

// Open opens the namespace of a file: /run/netns/<name> or /proc/<pid>/ns/net. The caller must close it.
func Open(path string) (*Namespace, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrEnded
	}
	if err != nil {
		return nil, fmt.Errorf("open network namespace %q: %w", path, err)
	}
	var on unix.Statfs_t
	var st unix.Stat_t
	err = unix.Fstatfs(int(f.Fd()), &on)
	if err == nil && on.Type != unix.NSFS_MAGIC {
		// After the end of a namespace, its mount point is an empty file.
		err = ErrEnded
	}
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open network namespace %q: %w", path, err)
	}
	return &Namespace{path: path, file: f, id: [2]uint64{uint64(st.Dev), st.Ino}}, nil
}

// Own opens the namespace of the calling thread. This is the namespace of the process, because threads in other
// namespaces are never used again. If the process uses the host's network, it is the host's namespace.
func Own() (*Namespace, error) { return Open("/proc/thread-self/ns/net") }

// Close closes the namespace. The kernel may end it then.
func (n *Namespace) Close() error { return n.file.Close() }

// Same reports whether both are the same namespace.
func (n *Namespace) Same(o *Namespace) bool { return n.id == o.id }

// String returns the path, for messages.
func (n *Namespace) String() string { return n.path }

// FD returns the file descriptor, which is valid until Close.
func (n *Namespace) FD() int { return int(n.file.Fd()) }

// Do runs f on a thread that is in the namespace. The thread ends with f.
func (n *Namespace) Do(f func() error) error { return n.do(f) }

// do runs f on a thread that is in the namespace, and that ends with f.
func (n *Namespace) do(f func() error) (err error) {
	thread.Do(func() {
		if err = unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter network namespace %q: %w; it needs CAP_SYS_ADMIN", n.path, err)
			return
		}
		err = f()
	})
	return err
}

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
