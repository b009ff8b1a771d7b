package hook

import (
	"errors"
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// MaxStateSize bounds what is read from stdin. A state holds the annotations of
// the container, which Kubernetes limits to 256 KiB.
const MaxStateSize = 1 << 20

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
	var st State
	s := &scanner{data: data}
	err := s.object(func(key string) (err error) {
		switch key {
		case "id":
			st.ID, err = s.optionalString(key)
		case "status":
			st.Status, err = s.optionalString(key)
		case "pid":
			st.PID, err = s.optionalInt(key)
		case "annotations":
			err = s.annotations(&st)
		default:
			err = s.skip(1)
		}
		return err
	})
	if err == nil {
		if s.space(); s.pos < len(data) {
			err = s.fail("nothing more")
		}
	}
	if err != nil {
		return State{}, wrap("parse OCI state", err)
	}
	return st, nil
}

// annotations reads what Kubernetes is told of: by containerd (pkg/cri/annotations) and by
// CRI-O (pkg/annotations). They are for people, so none of another kind is an error.
func (s *scanner) annotations(st *State) error {
	st.PodUID, st.Container = "", ""
	if s.peek() != '{' {
		return s.skip(1)
	}
	return s.object(func(key string) error {
		var into *string
		switch key {
		case "io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid":
			into = &st.PodUID
		case "io.kubernetes.cri.container-name", "io.kubernetes.container.name":
			into = &st.Container
		}
		if into == nil || s.peek() != '"' {
			return s.skip(2)
		}
		text, err := s.str()
		*into = text
		return err
	})
}

func (s *scanner) optionalString(key string) (string, error) {
	if s.word("null") {
		return "", nil
	}
	v, err := s.str()
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
	buf := make([]byte, 0, 4096)
	for {
		if err := waitReadable(fd, deadline); err != nil {
			return State{}, wrap("read OCI state from stdin ("+strconv.Itoa(len(buf))+" bytes so far)", err)
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 4*cap(buf)), buf...)
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return State{}, wrap("read OCI state from stdin", err)
		}
		buf = buf[:len(buf)+n]
		if len(buf) > MaxStateSize {
			return State{}, errors.New("read OCI state from stdin: more than " + Size(MaxStateSize).String())
		}
		if n == 0 && len(buf) == 0 {
			return State{}, errors.New("read OCI state from stdin: it is empty; a container runtime starts this hook and writes the state there")
		}
		if n == 0 || mayBeComplete(buf) {
			if st, err := ParseState(buf); err == nil || n == 0 {
				return st, err
			}
		}
	}
}

// mayBeComplete spares parsing a text that cannot be a whole object yet.
func mayBeComplete(b []byte) bool {
	for i := len(b) - 1; i >= 0; i-- {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return b[i] == '}'
		}
	}
	return false
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
