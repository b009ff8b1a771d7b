package rdmanetns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace that is held open: it does not end before Close.
type Namespace struct {
	path string
	file *os.File
	id   [2]uint64 // device and inode: what makes it this namespace
}

// ErrEnded is of a path that leads to no namespace, since it has ended or never was. It is an
// fs.ErrNotExist.
var ErrEnded = fmt.Errorf("there is no network namespace: %w", fs.ErrNotExist)

// Open opens the namespace that a file stands for: /run/netns/<name> or
// /proc/<pid>/ns/net.
func Open(path string) (*Namespace, error) {
	f, err := os.Open(path)
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
		// The mount point of a namespace that ended is an empty file.
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

// Own opens the namespace of the calling thread, which is the process's: only threads
// that nobody uses again are elsewhere. It is the host's where the process has the
// host's network.
func Own() (*Namespace, error) { return Open("/proc/thread-self/ns/net") }

// Close lets go of the namespace.
func (n *Namespace) Close() error { return n.file.Close() }

// Same reports whether two are one.
func (n *Namespace) Same(o *Namespace) bool { return n.id == o.id }

// String is the path, for messages.
func (n *Namespace) String() string { return n.path }

// FD is the file descriptor, valid until Close.
func (n *Namespace) FD() int { return int(n.file.Fd()) }

// Do runs f on a thread that is in the namespace, and ends with it.
func (n *Namespace) Do(f func() error) error { return n.do(f) }

// do runs f on a thread that is in the namespace. The thread is never used again: the
// Go runtime ends one whose goroutine exits while it is locked to it.
func (n *Namespace) do(f func() error) (err error) {
	onNewThread(func() {
		if err = unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter network namespace %q: %w; it needs CAP_SYS_ADMIN", n.path, err)
			return
		}
		err = f()
	})
	return err
}

// onNewThread runs f on a thread that ends with it. The main thread of a process cannot
// end: the runtime would park it for ever where f left it, and that namespace could
// not end either. So f never runs there.
func onNewThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onNewThread(f) // not here, as long as this goroutine is
			return
		}
		f()
	}()
	<-done
}
