package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// site is a host root of its own for a machine.
func site(t *testing.T, machine string) string {
	t.Helper()
	root := t.TempDir()
	must.NoError(t, os.Symlink(filepath.Join(host(t, machine), "sys"), filepath.Join(root, "sys")))
	return root
}

// watched is a host whose spec cdi-gen watch keeps right.
type watched struct {
	t               *testing.T
	root, dir, file string
	kernel          *os.File // its events are written here
	end             func() result
}

// startWatch starts the program on a machine. The caller ends it.
func startWatch(t *testing.T, machine string, args ...string) *watched {
	t.Helper()
	w := &watched{t: t, root: t.TempDir(), dir: t.TempDir()}
	w.file = filepath.Join(w.dir, "rdma.dev-hca.yaml")
	events, kernel, err := os.Pipe()
	must.NoError(t, err)
	w.kernel = kernel
	old := openUevents
	openUevents = func() (io.ReadCloser, error) { return events, nil }
	w.become(machine)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan result)
	go func() {
		var stdout, stderr bytes.Buffer
		args = append([]string{"watch", "--no-hook", "--host-root", w.root, "--to", w.dir}, args...)
		code := run(ctx, args, &stdout, &stderr)
		done <- result{code, stdout.String(), stderr.String()}
	}()
	w.end = func() result {
		cancel()
		defer func() { openUevents = old }()
		r := <-done
		test.NoError(t, kernel.Close())
		return r
	}
	return w
}

// become makes the host another machine.
func (w *watched) become(machine string) {
	w.t.Helper()
	next := filepath.Join(w.root, "next")
	must.NoError(w.t, errors.Join(os.Symlink(filepath.Join(host(w.t, machine), "sys"), next),
		os.Rename(next, filepath.Join(w.root, "sys"))))
}

// event lets the kernel say that something has changed, and waits for what follows.
func (w *watched) event(what string, condition func() bool) {
	w.t.Helper()
	_, err := w.kernel.WriteString("add@/devices/x\x00SUBSYSTEM=infiniband\x00")
	must.NoError(w.t, err)
	await(w.t, what, condition)
}

// has reports whether the spec has a device; the device "" is that of no spec.
func (w *watched) has(device string) bool {
	data, err := os.ReadFile(w.file)
	if device == "" {
		return errors.Is(err, os.ErrNotExist)
	}
	return strings.Contains(string(data), "name: "+device+"\n")
}

// TestWatch: the spec follows the host at the kernel's events: written, changed, removed and written again.
func TestWatch(t *testing.T) {
	w := startWatch(t, "none")
	for _, step := range []struct{ machine, device string }{{"roce-lag", "mlx5_bond_0"}, {"soft", "rxe0"}, {"none", ""},
		{"soft", "rxe3"}} {
		w.become(step.machine)
		w.event(step.machine, func() bool { return w.has(step.device) })
	}
	// A node that is made later than the kernel's event.
	put(t, filepath.Join(w.root, "dev/null"), "", 0o666)
	w.event("missing nodes", func() bool { return w.has("") })
	put(t, filepath.Join(w.root, "dev/infiniband/uverbs0"), "", 0o666)
	await(t, "late node", func() bool { return !w.has("") })
	r := w.end()
	if r.code != exitOK || r.stdout != "" || !strings.Contains(r.stderr, ": its devices are gone") ||
		strings.Contains(r.stderr, "up to date") {
		t.Errorf("exit code %d, standard output %q, standard error:\n%s", r.code, r.stdout, r.stderr)
	}
	cdigen(t, "watch").expect(t, exitUsage, "with --to")
	cdigen(t, "watch", "--to", w.dir, "--names", "x").expect(t, exitUsage, "--names")
}

// TestWatchRepairs: what others do to the file, and a device that is gone although a flag names it, does not end the
// program.
func TestWatchRepairs(t *testing.T) {
	w := startWatch(t, "roce-lag", "--device", "mlx5_9") // which is not that machine's
	twin := filepath.Join(w.dir, "rdma.dev-hca.json")
	has := func() bool {
		info, err := os.Stat(w.file)
		_, err2 := os.Stat(twin)
		return w.has("mlx5_9") && err == nil && info.Mode().Perm() == 0o644 && err2 != nil
	}
	for _, step := range []struct {
		name string
		do   func()
		want func() bool
	}{
		{"the device comes", func() { w.become("roce-sriov") }, has},
		{"mode", func() { os.Chmod(w.file, 0o600) }, has},
		{"twin", func() { put(t, twin, oldSpec, 0o644) }, has},
		{"the device goes, others stay", func() { w.become("roce-lag") }, func() bool { return !has() }},
		{"the device comes again", func() { w.become("roce-sriov") }, has},
	} {
		step.do()
		w.event(step.name, step.want)
	}
	r := w.end()
	test.Eq(t, exitOK, r.code, test.Sprint(r.stderr))
}

// await waits for a condition.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		must.False(t, time.Now().After(deadline), must.Sprintf("%s: the condition does not come true", what))
	}
}
