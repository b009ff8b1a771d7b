package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopTimeout is how long a component may take to end after the signal before
// it is killed.
const stopTimeout = 20 * time.Second

// Server runs components. It must be process 1 of its PID namespace and must
// not use os/exec: the reaper collects every child.
type Server struct {
	mu    sync.Mutex
	procs []*process
	cmds  map[string]Component
}

type process struct {
	State
	done chan struct{} // closed when the process has been reaped
}

// NewServer returns a server of the given components; it starts nothing.
func NewServer(components []Component) *Server {
	s := &Server{cmds: map[string]Component{}}
	for _, c := range components {
		s.cmds[c.Name] = c
		s.procs = append(s.procs, &process{State: State{Name: c.Name}})
	}
	return s
}

// Serve answers requests on the socket in stateDir until SIGTERM or SIGINT.
func (s *Server) Serve(stateDir string) error {
	var l net.Listener
	err := viaShortPath(stateDir, func(path string) (err error) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l, err = net.Listen("unix", path)
		return err
	})
	if err != nil {
		return fmt.Errorf("listen on the supervisor's socket in %q: %w", stateDir, err)
	}
	defer l.Close()
	children, stop := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(children)
	defer signal.Stop(stop)
	go s.accept(l)
	for {
		select {
		case <-children:
			for s.reapOne() {
			}
		case <-stop:
			return nil
		}
	}
}

func (s *Server) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.answer(conn)
	}
}

func (s *Server) answer(conn net.Conn) {
	defer conn.Close()
	var req Request
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return // a client that only asked for our credentials
	}
	var resp Response
	if err := s.handle(req); err != nil {
		resp.Error = err.Error()
	}
	resp.States = s.states()
	json.NewEncoder(conn).Encode(resp)
}

func (s *Server) handle(req Request) error {
	switch req.Verb {
	case "status":
		return nil
	case "start":
		return s.start(req.Name)
	case "stop":
		return s.stop(req.Name, syscall.Signal(req.Signal))
	case "signal":
		_, err := s.signal(req.Name, syscall.Signal(req.Signal))
		return err
	default:
		return fmt.Errorf("unknown request %q", req.Verb)
	}
}

func (s *Server) states() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []State
	for _, p := range s.procs {
		states = append(states, p.State)
	}
	return states
}

// start starts a component that does not run; it is no error that it runs.
// The mutex is held across the fork so that the reaper knows every child.
func (s *Server) start(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(name)
	if err != nil || p.Running() {
		return err
	}
	pid, err := fork(s.cmds[name])
	if err != nil {
		return fmt.Errorf("start component %q: %w", name, err)
	}
	p.State = State{Name: name, Pid: pid, Started: time.Now()}
	p.done = make(chan struct{})
	return nil
}

// stop sends the signal and waits for the end; a component that outlives
// stopTimeout is killed.
func (s *Server) stop(name string, sig syscall.Signal) error {
	done, err := s.signal(name, sig)
	if err != nil || done == nil {
		return err
	}
	s.mu.Lock()
	if p, err := s.find(name); err == nil {
		p.Stopped = true
	}
	s.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-time.After(stopTimeout):
	}
	if _, err := s.signal(name, syscall.SIGKILL); err != nil {
		return err
	}
	<-done
	return nil
}

// signal signals a running component; the channel is nil when it does not run.
func (s *Server) signal(name string, sig syscall.Signal) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(name)
	if err != nil || !p.Running() {
		return nil, err
	}
	if err := syscall.Kill(p.Pid, sig); err != nil {
		return nil, fmt.Errorf("send signal %d to component %q: %w", sig, name, err)
	}
	return p.done, nil
}

func (s *Server) find(name string) (*process, error) {
	for _, p := range s.procs {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("find component %q: no such component", name)
}

// fork starts the component's program in a session of its own.
func fork(c Component) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, fmt.Errorf("open its log: %w", err)
	}
	defer log.Close()
	restore, err := lowerMemlock(c.MemlockSoft)
	if err != nil {
		return 0, err
	}
	defer restore()
	return syscall.ForkExec(c.Argv[0], c.Argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   c.Env,
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// lowerMemlock sets our own soft limit, which the child inherits. The caller
// holds the mutex, so no other child is forked meanwhile.
func lowerMemlock(soft uint64) (restore func(), err error) {
	if soft == 0 {
		return func() {}, nil
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		return nil, fmt.Errorf("read RLIMIT_MEMLOCK: %w", err)
	}
	lowered := unix.Rlimit{Cur: min(soft, old.Max), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &lowered); err != nil {
		return nil, fmt.Errorf("lower RLIMIT_MEMLOCK to %d bytes: %w", soft, err)
	}
	return func() { unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old) }, nil
}
