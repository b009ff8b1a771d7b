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

// MaxStateSize bounds what the hook reads from stdin. A state contains the annotations of the container. Kubernetes
// accepts 256 KiB of annotations for a pod, and 1.5 MiB for the whole pod. A runtime escapes a byte with up to seven
// bytes, and CRI-O writes several copies.
const MaxStateSize = 64 << 20

// maxText bounds a text that the hook keeps, such as the container's ID.
const maxText = 4096

// ErrStateTimeout is the error of ReadState if no complete state arrives in time.
var ErrStateTimeout = errors.New("no complete OCI state arrived in time")

// State is the part of the OCI runtime's state that the hook needs,
// https://github.com/opencontainers/runtime-spec/blob/main/runtime.md#state.
type State struct {
	ID     string // id
	Status string // status: for a createRuntime hook runc writes "creating", crun "created"
	PID    *int   // pid in the runtime's PID namespace; nil if absent

	// From the annotations of Kubernetes' container runtimes, else "".
	PodUID    string
	Container string // its name in the pod
}

// stateOf returns the state with these members. It ignores unknown keys, and treats null as absent. It must not decode
// into a struct, because encoding/json ignores the case of a struct's keys.
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

// check reports whether there is a process to limit. If there is none, reason says why. An error means that the state
// itself is wrong. The hook continues after a warning.
func (st State) check() (reason, warning string, err error) {
	switch {
	case st.Status == "stopped":
		return `the status is "stopped"`, "", nil
	case st.PID == nil:
		return "", "", errors.New(`check OCI state: it has no "pid"; use the hook as createRuntime, where the runtime must ` +
			`write one`)
	case *st.PID <= 0:
		return "the state names no process: its pid is " + strconv.Itoa(*st.PID), "", nil
	case *st.PID > math.MaxInt32:
		return "", "", fmt.Errorf("check OCI state: pid %d is larger than any process ID", *st.PID)
	case st.Status != "creating" && st.Status != "created":
		warning = fmt.Sprintf(`status %q is neither "creating" nor "created", as in a createRuntime hook; the hook continues`,
			st.Status)
	}
	return "", warning, nil
}

// ReadState reads the OCI state from a file descriptor, which may be blocking. It returns once the state is complete,
// even without an end of file, and at the deadline at the latest: a runtime that never closes the pipe must not block
// the start of a container. The last value of a repeated key counts.
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
		return State{}, errors.New("read OCI state from stdin: it is empty; a container runtime starts this hook and " +
			"writes the state to its stdin")
	case err != nil:
		return State{}, fmt.Errorf("parse OCI state: %w", err)
	}
	rest, err := io.ReadAll(d.Buffered())
	if rest = bytes.TrimLeft(rest, " \t\r\n"); err != nil || len(rest) > 0 {
		return State{}, fmt.Errorf("parse OCI state: expected nothing after the object, found %.20q", rest)
	}
	return stateOf(members)
}

// stateReader counts bytes, and keeps an error other than the end of the file.
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

// readBy reads available bytes. It waits for them until the deadline.
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
		// Round up: less than a millisecond must not become a busy loop.
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
