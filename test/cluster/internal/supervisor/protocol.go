// Package supervisor is process 1 of the embedded cluster's PID namespace. It
// starts the components, reaps every orphan, and answers requests on a unix
// socket. It knows nothing of Kubernetes: a component is a name and a command
// line. When it dies the kernel kills everything in the namespace.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// SocketName is the socket's name in the state directory.
const SocketName = "supervisor.sock"

// Component is a program that the supervisor runs.
type Component struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	// Log receives standard output and standard error.
	Log string `json:"log"`
	// MemlockSoft is the soft RLIMIT_MEMLOCK in bytes; 0 leaves it alone.
	MemlockSoft uint64 `json:"memlockSoft,omitempty"`
}

// State is what the supervisor knows of a component.
type State struct {
	Name string `json:"name"`
	// Pid is in the cluster's PID namespace; 0 when it does not run.
	Pid     int       `json:"pid"`
	Started time.Time `json:"started,omitzero"`
	// Ended says how it ended, when it did.
	Ended string `json:"ended,omitempty"`
	// Stopped says that it was told to end.
	Stopped bool `json:"stopped,omitempty"`
}

// Running reports whether the component's process lives.
func (s State) Running() bool { return s.Pid != 0 }

// Request is one question or order.
type Request struct {
	// Verb is status, start, stop or signal.
	Verb   string `json:"verb"`
	Name   string `json:"name,omitempty"`
	Signal int    `json:"signal,omitempty"`
}

// Response is the answer; it lists all components in their order of start.
type Response struct {
	Error  string  `json:"error,omitempty"`
	States []State `json:"states,omitempty"`
}

// Client talks to the supervisor of one state directory.
type Client struct{ dir string }

// NewClient returns a client; it does not connect.
func NewClient(stateDir string) *Client { return &Client{dir: stateDir} }

// Pid returns the supervisor's process ID as the caller's PID namespace sees it,
// from the socket's credentials. An error means that no supervisor listens.
func (c *Client) Pid(ctx context.Context) (int, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("read the credentials of the supervisor's socket: %w", err)
	}
	return int(cred.Pid), nil
}

// Do sends one request and waits for its answer.
func (c *Client) Do(ctx context.Context, req Request) ([]State, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return nil, fmt.Errorf("send %q to the supervisor: %w", req.Verb, err)
	}
	var resp Response
	if err := json.NewDecoder(conn).Decode(&resp); err != nil {
		return nil, fmt.Errorf("read the supervisor's answer to %q: %w", req.Verb, errors.Join(err, ctx.Err()))
	}
	if resp.Error != "" {
		return resp.States, errors.New(resp.Error)
	}
	return resp.States, nil
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var conn net.Conn
	err := viaShortPath(c.dir, func(path string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the supervisor in %q: %w", c.dir, err)
	}
	return conn, nil
}

// viaShortPath calls f with a path of the socket that fits in the 108 bytes of a
// socket address, however long dir is.
func viaShortPath(dir string, f func(path string) error) error {
	d, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return f(filepath.Join(fmt.Sprintf("/proc/self/fd/%d", d.Fd()), SocketName))
}
