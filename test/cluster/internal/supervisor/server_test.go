package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// serve runs a server in the test's own process, which starts no other children. The
// long directory name is longer than a socket address can be.
func serve(t *testing.T, components ...Component) *Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	must.NoError(t, os.Mkdir(dir, 0o755))
	for i := range components {
		components[i].Log = filepath.Join(dir, components[i].Name+".log")
	}
	ended := make(chan error, 1)
	go func() { ended <- NewServer(components).Serve(dir) }()
	client := NewClient(dir)
	waitUntil(t, func() bool {
		_, err := client.Pid(t.Context())
		return err == nil
	})
	t.Cleanup(func() {
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		test.NoError(t, <-ended)
	})
	return client
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		must.False(t, time.Now().After(deadline), must.Sprint("not within a minute"))
	}
}

func do(t *testing.T, c *Client, verb, name string, sig syscall.Signal) State {
	t.Helper()
	states, err := c.Do(t.Context(), Request{Verb: verb, Name: name, Signal: int(sig)})
	must.NoError(t, err)
	for _, s := range states {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no component %q in %v", name, states)
	return State{}
}

func TestLifeOfComponents(t *testing.T) {
	c := serve(t,
		Component{Name: "sleep", Argv: []string{"/bin/sleep", "1000"}},
		Component{Name: "false", Argv: []string{"/bin/false"}},
		Component{Name: "missing", Argv: []string{"/nonesuch/program"}},
	)
	if pid, err := c.Pid(t.Context()); err != nil || pid != os.Getpid() {
		t.Errorf("pid: got %d, %v; want %d", pid, err, os.Getpid())
	}
	first := do(t, c, "start", "sleep", 0)
	must.True(t, first.Running(), must.Sprintf("after start: %+v", first))
	if again := do(t, c, "start", "sleep", 0); again.Pid != first.Pid {
		t.Errorf("a second start: %+v, want process %d", again, first.Pid)
	}
	if s := do(t, c, "stop", "sleep", syscall.SIGTERM); s.Running() || s.Ended != "killed by terminated" || !s.Stopped {
		t.Errorf("after stop: %+v", s)
	}
	if s := do(t, c, "stop", "sleep", syscall.SIGTERM); s.Running() {
		t.Errorf("after a second stop: %+v", s)
	}
	if s := do(t, c, "start", "sleep", 0); !s.Running() || s.Stopped || s.Ended != "" {
		t.Errorf("after the next start: %+v", s)
	}
	do(t, c, "start", "false", 0)
	waitUntil(t, func() bool { return do(t, c, "status", "false", 0).Ended == "exited with status 1" })
	if s := do(t, c, "status", "false", 0); s.Stopped {
		t.Errorf("it ended by itself: %+v", s)
	}
	do(t, c, "stop", "sleep", syscall.SIGKILL)
}

func TestErrors(t *testing.T) {
	c := serve(t, Component{Name: "missing", Argv: []string{"/nonesuch/program"}})
	for want, req := range map[string]Request{
		`start component "missing": no such file or directory`: {Verb: "start", Name: "missing"},
		`find component "other": no such component`:            {Verb: "start", Name: "other"},
		`unknown request "dance"`:                              {Verb: "dance"},
	} {
		if _, err := c.Do(t.Context(), req); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", req, err, want)
		}
	}
	if _, err := NewClient(t.TempDir()).Pid(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no supervisor: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Do(ctx, Request{Verb: "status"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMemlock(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "limit")
	c := serve(t, Component{
		Name: "limit", Argv: []string{"/bin/sh", "-c", "ulimit -S -l >" + out + ".new && mv " + out + ".new " + out},
		MemlockSoft: 64 << 10,
	})
	var before, after syscall.Rlimit
	const memlock = 8 // RLIMIT_MEMLOCK, not in package syscall
	must.NoError(t, syscall.Getrlimit(memlock, &before))
	do(t, c, "start", "limit", 0)
	waitUntil(t, func() bool { return do(t, c, "status", "limit", 0).Ended != "" })
	if got, err := os.ReadFile(out); err != nil || string(got) != "64\n" {
		t.Errorf("soft limit in the component: got %q, %v; want 64 KiB", got, err)
	}
	if err := syscall.Getrlimit(memlock, &after); err != nil || after != before {
		t.Errorf("our own limit: %v before, %v after (%v)", before, after, err)
	}
}
