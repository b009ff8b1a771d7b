package sysfault

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// notif is struct seccomp_notif, resp struct seccomp_notif_resp (linux/seccomp.h).
type notif struct {
	id         uint64
	pid, flags uint32
	data       notifData
}

type notifData struct {
	nr   int32
	arch uint32
	ip   uint64
	args [6]uint64
}

type resp struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// Supervisor decides about the calls of the programs that its commands start.
type Supervisor struct {
	t        testing.TB
	socket   string
	listener *net.UnixListener
	stop     int // an eventfd that ends the loops
	loops    sync.WaitGroup

	mu   sync.Mutex
	shot *Shot
}

// New makes a supervisor until the end of the test. Start programs after it.
func New(t testing.TB) *Supervisor {
	t.Helper()
	dir, err := os.MkdirTemp("", "sysfault-")
	must.NoError(t, err)
	s := &Supervisor{t: t, socket: filepath.Join(dir, "socket")}
	if s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.socket, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	if s.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	s.loops.Go(s.accept)
	t.Cleanup(func() {
		s.listener.Close()
		if _, err := unix.Write(s.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Errorf("stop the supervisor: %v", err)
		}
		s.loops.Wait()
		unix.Close(s.stop)
		os.RemoveAll(dir)
	})
	return s
}

// Available reports why programs cannot be supervised here, nil if they can.
func Available() error {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("seccomp user notification needs Linux 5.19 and no sandbox around: %w", errno)
	}
	return nil
}

// Command is what to run instead of a program, to have its calls supervised.
func (s *Supervisor) Command(program string, args ...string) []string {
	s.t.Helper()
	launch, err := launcher()
	must.NoError(s.t, err)
	return append([]string{launch, s.socket, program}, args...)
}

func (s *Supervisor) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			return // closed at the end
		}
		fd, err := receive(conn)
		conn.Close()
		if err != nil {
			s.t.Errorf("supervise a program: %v", err)
			continue
		}
		s.loops.Go(func() { s.serve(fd) })
	}
}

// receive takes the listener of a program from its launcher.
func receive(conn *net.UnixConn) (int, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(data, control)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("%d control messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("%d descriptors: %w", len(fds), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// serve answers the kernel until the program and its threads are gone.
func (s *Supervisor) serve(fd int) {
	defer unix.Close(fd)
	var stopped sync.WaitGroup
	defer stopped.Wait()
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(s.stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			s.t.Errorf("supervise a program: %v", err)
			return
		}
		if poll[1].Revents != 0 || poll[0].Revents&unix.POLLIN == 0 {
			return
		}
		if err := s.answer(fd, &stopped); err != nil {
			s.t.Errorf("supervise a program: %v", err)
			return
		}
	}
}

// answer takes one call and decides about it. What a fault does with the thread that it
// stops is no reason to stop the others.
func (s *Supervisor) answer(fd int, stopped *sync.WaitGroup) error {
	var n notif
	if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
		return gone(err)
	}
	shot := s.armed()
	if shot == nil {
		return send(fd, n.id, 0)
	}
	call, err := describe(n.pid, &n.data)
	if err != nil { // the thread was killed meanwhile
		return send(fd, n.id, 0)
	}
	do := shot.decide(call)
	if do == nil {
		return send(fd, n.id, 0)
	}
	stopped.Go(func() {
		test.NoError(s.t, send(fd, n.id, do(call)), test.Sprint("supervise a program"))
	})
	return nil
}

// send lets a call go on, or fail.
func send(fd int, id uint64, errno unix.Errno) error {
	r := resp{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if errno != 0 {
		r = resp{id: id, err: -int32(errno)}
	}
	return gone(ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)))
}

// gone takes it for no error that a stopped thread was killed.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOTCONN) {
		return nil
	}
	return err
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// armed returns the fault that is armed, nil for none.
func (s *Supervisor) armed() *Shot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shot
}
