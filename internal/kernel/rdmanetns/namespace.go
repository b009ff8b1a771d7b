package rdmanetns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
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

// do runs f on a thread that is in the namespace. The thread is never used again: the Go runtime ends a thread if its
// goroutine exits while locked to it.
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

// onNewThread runs f on a thread that ends with it. f must never run on the main thread, because the main thread of a
// process cannot end. The runtime would keep it forever in the namespace of f, and so that namespace could not end
// either.
func onNewThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onNewThread(f) // this goroutine occupies the main thread, so f runs on another one
			return
		}
		f()
	}()
	<-done
}
