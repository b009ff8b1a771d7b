package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
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

	Bundle string // bundle: the directory of config.json
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
	}{
		{"id", &st.ID, "a string"}, {"status", &st.Status, "a string"}, {"bundle", &st.Bundle, "a string"},
		{"pid", &st.PID, "an integer"},
	} {
		raw, ok := members[m.key]
		if ok && len(raw) > maxText {
			return State{}, fmt.Errorf("parse OCI state: key %q: longer than %s", m.key, args.Size(maxText))
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

// ReadState reads the OCI state from standard input, which may be blocking. It returns once the state is complete,
// even without an end of file, and at the deadline at the latest: a runtime that never closes the pipe must not block
// the start of a container. The last value of a repeated key counts.
func ReadState(stdin io.Reader, deadline time.Time) (State, error) {
	r := &stateReader{stdin: stdin}
	var st State // not read after the deadline, nor is err
	var err error
	if doBy(deadline, func() { st, err = readState(r) }) {
		return st, err
	}
	return State{}, r.failed(ErrStateTimeout)
}

func readState(r *stateReader) (State, error) {
	d := json.NewDecoder(r)
	var members map[string]json.RawMessage
	err := d.Decode(&members)
	switch {
	case r.err != nil:
		return State{}, r.failed(r.err)
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
	stdin io.Reader
	total atomic.Int64
	err   error
}

func (r *stateReader) Read(b []byte) (int, error) {
	n, err := r.stdin.Read(b)
	if r.total.Add(int64(n)) > MaxStateSize {
		err = errors.New("more than " + args.Size(MaxStateSize).String())
	}
	if err != io.EOF {
		r.err = cause(err)
	}
	return n, err
}

func (r *stateReader) failed(err error) error {
	return fmt.Errorf("read OCI state from stdin (%d bytes so far): %w", r.total.Load(), err)
}
