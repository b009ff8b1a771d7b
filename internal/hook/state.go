package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// MaxStateSize bounds what the hook reads from stdin. A state holds the annotations of the container.
// Kubernetes accepts 256 KiB of annotations for a pod, and a pod of 1.5 MiB in all. A runtime
// escapes a byte with up to seven bytes, and CRI-O writes several copies.
const MaxStateSize = 64 << 20

// maxText bounds a text that is kept, such as the container's ID.
const maxText = 4096

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

// stateOf returns the state with those members. Unknown keys are ignored, and null is the same as absent. A struct would
// not do: encoding/json ignores the case of its keys.
func stateOf(members map[string]json.RawMessage) (st State, err error) {
	if members == nil {
		return st, errors.New("parse OCI state: it is null, and not an object")
	}
	for _, m := range []struct {
		key  string
		into any
		kind string
	}{{"id", &st.ID, "a string"}, {"status", &st.Status, "a string"}, {"pid", &st.PID, "an integer"}} {
		raw, ok := members[m.key]
		if ok && len(raw) > maxText {
			return State{}, fmt.Errorf("parse OCI state: key %q: longer than %s", m.key, Size(maxText))
		}
		if ok && json.Unmarshal(raw, m.into) != nil {
			return State{}, fmt.Errorf("parse OCI state: key %q: %s is not %s", m.key, raw, m.kind)
		}
	}
	st.PodUID, st.Container = annotatedPod(members["annotations"], st.ID)
	return st, nil
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
// a container. The last one of a repeated key counts. The descriptor may be blocking.
func ReadState(fd int, deadline time.Time) (State, error) {
	return readState(&stateReader{read: func(b []byte) (int, error) { return readBy(fd, b, deadline) }})
}

func readState(r *stateReader) (State, error) {
	d := json.NewDecoder(r)
	var members map[string]json.RawMessage
	err := d.Decode(&members)
	switch {
	case r.err != nil:
		return State{}, fmt.Errorf("read OCI state from stdin (%d bytes so far): %w", r.total, r.err)
	case err == io.EOF:
		return State{}, errors.New("read OCI state from stdin: it is empty; a container runtime starts this hook and writes the state there")
	case err != nil:
		return State{}, fmt.Errorf("parse OCI state: %w", err)
	}
	rest, err := io.ReadAll(d.Buffered())
	if rest = bytes.TrimLeft(rest, " \t\r\n"); err != nil || len(rest) > 0 {
		return State{}, fmt.Errorf("parse OCI state: expected nothing after the object, found %.20q", rest)
	}
	return stateOf(members)
}

// stateReader counts what it reads, and keeps an error other than the end of the file.
type stateReader struct {
	read  func([]byte) (int, error)
	total int
	err   error
}

func (r *stateReader) Read(b []byte) (int, error) {
	n, err := r.read(b)
	if r.total += n; r.total > MaxStateSize {
		err = errors.New("more than " + Size(MaxStateSize).String())
	}
	if err != io.EOF {
		r.err = err
	}
	return n, err
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
