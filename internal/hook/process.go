package hook

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// ErrGone is in the error of a process that has exited or never existed.
var ErrGone = errors.New("the process is gone")

// hostProcess is a process with its ID. prlimit(2) needs the ID, and the kernel reuses the ID of a process that was
// reaped. A runtime does not reap the init process while it runs a hook, so the ID is safe in practice. The pidfd
// proves it: if the process is alive after a call, the call affected this process.
type hostProcess struct {
	pid   int
	pidfd int // -1 if the kernel has none (before 5.3, or behind a seccomp filter)
}

// OpenProcess finds the process. The pidfd stays open until the program ends.
func OpenProcess(pid int) (Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch err {
	case nil:
		return &hostProcess{pid, fd}, nil
	case unix.ENOSYS, unix.EPERM, unix.EMFILE, unix.ENFILE:
		return &hostProcess{pid, -1}, nil
	case unix.ESRCH:
		err = ErrGone
	case unix.EINVAL, unix.ENOENT:
		err = errors.New("it is a thread, not a process")
	}
	return nil, wrap("open process "+strconv.Itoa(pid), err)
}

// inHostNetwork reports whether a process is in the network namespace of the hook, which is the host's. It returns nil
// if it cannot tell.
func inHostNetwork(pid int) *bool {
	var host, container unix.Stat_t
	if unix.Stat("/proc/self/ns/net", &host) != nil || unix.Stat("/proc/"+strconv.Itoa(pid)+"/ns/net", &container) != nil {
		return nil
	}
	same := host.Dev == container.Dev && host.Ino == container.Ino
	return &same
}

func (p *hostProcess) Limit() (record.Rlimit, error) {
	var old unix.Rlimit
	err := p.prlimit(nil, &old)
	return record.Rlimit{Soft: args.Size(old.Cur), Hard: args.Size(old.Max)}, err
}

func (p *hostProcess) SetLimit(l record.Rlimit) error {
	return p.prlimit(&unix.Rlimit{Cur: uint64(l.Soft), Max: uint64(l.Hard)}, nil)
}

// prlimit returns EPERM unchanged, because Raise checks for it.
func (p *hostProcess) prlimit(set, old *unix.Rlimit) error {
	err := unix.Prlimit(p.pid, unix.RLIMIT_MEMLOCK, set, old)
	if err == unix.ESRCH || err == nil && p.exited() {
		err = ErrGone
	}
	if err == nil || err == unix.EPERM {
		return err
	}
	return wrap("prlimit RLIMIT_MEMLOCK of process "+strconv.Itoa(p.pid), err)
}

// exited is also true for a zombie: a pidfd is readable once the process has exited.
func (p *hostProcess) exited() bool {
	if p.pidfd < 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
