package sysfault

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launchArg is the first argument of a test binary that shall become a program.
const launchArg = "sysfault-launch"

// Launch turns the test binary into a watched program, if it was started for that,
// and does not return then.
func Launch() {
	if len(os.Args) < 4 || os.Args[1] != launchArg {
		return
	}
	if err := become(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// become installs the filter, hands its listener to the supervisor at a socket, and
// replaces this process.
func become(socket string, command []string) error {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("launch %q: %w", command[0], err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("launch %q: %w", command[0], err)
	}
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		return fmt.Errorf("launch %q: %w", command[0], err)
	}
	// A filter belongs to a thread, and from here on this one is stopped at each
	// call on a file until the supervisor has the listener.
	runtime.LockOSThread()
	listener, err := install()
	if err != nil {
		return fmt.Errorf("launch %q: install the seccomp filter: %w", command[0], err)
	}
	if err := unix.Sendmsg(int(file.Fd()), []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("launch %q: hand over the listener: %w", command[0], err)
	}
	// A signal would interrupt a stopped call, and the kernel would ask twice.
	env := append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	return fmt.Errorf("launch %q: %w", command[0], syscall.Exec(program, command, env))
}

// install installs the filter for this thread and returns its listener.
func install() (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	filter := program()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// program is the filter: ask for the watched calls, allow the others.
func program() []unix.SockFilter {
	const load, equal, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	left := len(watched)
	for nr := range watched {
		filter = append(filter, unix.SockFilter{Code: equal, K: uint32(nr), Jt: uint8(left)})
		left--
	}
	return append(filter,
		unix.SockFilter{Code: end, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: end, K: unix.SECCOMP_RET_USER_NOTIF})
}
