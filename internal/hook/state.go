package hook

import (
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// MaxStateSize bounds what is read from stdin. A state holds the annotations of the container,
// of which Kubernetes takes 256 KiB for a pod, and a pod of 1.5 MiB in all. A runtime escapes a
// byte with up to seven, and CRI-O writes several copies. Nothing of it is kept in memory.
const MaxStateSize = 64 << 20

// windowSize is how much of a state is in memory at a time: most are one window.
const windowSize = 8 << 10

// ErrStateTimeout is what ReadState returns when no whole state arrives in time.
var ErrStateTimeout = errors.New("no complete OCI state arrived in time")

// State is what the hook needs of the OCI runtime's state,
// https://github.com/opencontainers/runtime-spec/blob/main/runtime.md#state.
type State struct {
	ID     string // id
	Status string // status: runc says "creating" to a createRuntime hook, crun "created"
	PID    *int   // pid, as the runtime's PID namespace sees it; nil where absent

	// What the container runtimes of Kubernetes say in the annotations; "" elsewhere.
	PodUID    string
	Container string // its name in the pod
}

// ParseState reads the OCI state. Unknown keys are passed over, the last one of
// a repeated key counts, and null is the same as absent.
func ParseState(data []byte) (State, error) {
	return (&scanner{buf: data}).state()
}

func (s *scanner) state() (State, error) {
	var st State
	var kube annotations
	err := s.object(func(key string) (err error) {
		switch key {
		case "id":
			st.ID, err = s.optionalString(key)
		case "status":
			st.Status, err = s.optionalString(key)
		case "pid":
			st.PID, err = s.optionalInt(key)
		case "annotations":
			kube, err = s.annotations()
		default:
			err = s.skip(1)
		}
		return err
	})
	if err == nil {
		err = s.rest()
	}
	if err != nil {
		return State{}, wrap("parse OCI state", err)
	}
	st.PodUID, st.Container = kube.of(st.ID)
	return st, nil
}

func (s *scanner) optionalString(key string) (string, error) {
	if s.word("null") {
		return "", nil
	}
	v, whole, err := s.str(maxText)
	if err == nil && !whole {
		err = errors.New("longer than " + Size(maxText).String())
	}
	return v, wrap("key "+strconv.Quote(key), err)
}

func (s *scanner) optionalInt(key string) (*int, error) {
	if s.word("null") {
		return nil, nil
	}
	text, err := s.number()
	if err != nil {
		return nil, wrap("key "+strconv.Quote(key), err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, errors.New("key " + strconv.Quote(key) + ": " + text + " is not an integer")
	}
	return &n, nil
}

// check says whether there is a process to act on. reason explains why not; it
// is an error only where the state itself is wrong. A warning does not stop.
func (st State) check() (reason, warning string, err error) {
	switch {
	case st.Status == "stopped":
		return `the status is "stopped"`, "", nil
	case st.PID == nil:
		return "", "", errors.New(`check OCI state: there is no "pid"; use the hook as createRuntime, where the runtime must give one`)
	case *st.PID <= 0:
		return "the state names no process: its pid is " + strconv.Itoa(*st.PID), "", nil
	case *st.PID > math.MaxInt32:
		return "", "", errors.New("check OCI state: pid " + strconv.Itoa(*st.PID) + " is larger than any process ID")
	case st.Status != "creating" && st.Status != "created":
		warning = "status " + strconv.Quote(st.Status) +
			` is neither "creating" nor "created", as it is in a createRuntime hook; going on`
	}
	return "", warning, nil
}

// ReadState reads the OCI state from a file descriptor. It returns as soon as
// the state is complete, end of file or not, and after the deadline at the
// latest, so that a runtime that never closes the pipe cannot hang the start of
// a container. The descriptor may be blocking.
func ReadState(fd int, deadline time.Time) (State, error) {
	total := 0
	var readErr error // the text's own faults have their own words
	s := &scanner{buf: make([]byte, 0, windowSize), read: func(b []byte) (int, error) {
		n, err := readBy(fd, b, deadline)
		total += n
		if err != nil && err != io.EOF {
			readErr = err
		}
		return n, err
	}}
	st, err := s.state()
	switch {
	case readErr != nil:
		return State{}, wrap("read OCI state from stdin ("+strconv.Itoa(total)+" bytes so far)", readErr)
	case err != nil && total == 0:
		return State{}, errors.New("read OCI state from stdin: it is empty; a container runtime starts this hook and writes the state there")
	}
	return st, err
}

// readBy reads what is there, and waits for it until the deadline.
func readBy(fd int, b []byte, deadline time.Time) (int, error) {
	for {
		if err := waitReadable(fd, deadline); err != nil {
			return 0, err
		}
		switch n, err := unix.Read(fd, b); {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// waitReadable returns nil when a read will not block.
func waitReadable(fd int, deadline time.Time) error {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return ErrStateTimeout
		}
		// Rounded up: a rest below a millisecond must not become a busy loop.
		n, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond))
		switch {
		case err != nil && err != unix.EINTR:
			return err
		case n > 0 && fds[0].Revents&unix.POLLNVAL != 0:
			return unix.EBADF
		case n > 0:
			return nil
		}
	}
}
