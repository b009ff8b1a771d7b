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

	"github.com/shoenig/test/must"
)

// site is a host root of its own for a machine, with files of the site.
func site(t *testing.T, machine string) string {
	t.Helper()
	root := t.TempDir()
	must.NoError(t, os.Symlink(filepath.Join(host(t, machine), "sys"), filepath.Join(root, "sys")))
	put(t, filepath.Join(root, "opt/topo.xml"), "<system/>", 0o644)
	put(t, filepath.Join(root, "etc/site.conf"), "", 0o644)
	return root
}

// events is a source of kernel events that a test feeds.
type events struct{ messages chan []byte }

func (e events) Read(p []byte) (int, error) {
	m, ok := <-e.messages
	if !ok {
		return 0, os.ErrClosed
	}
	return copy(p, m), nil
}

func (e events) Close() error { return nil }

// TestWatch: the spec follows the host at the kernel's events: written, changed,
// removed and written again.
func TestWatch(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	sys, file := filepath.Join(root, "sys"), filepath.Join(dir, "rdma.dev-hca.yaml")
	become := func(machine string) {
		t.Helper()
		next := filepath.Join(root, "next")
		must.NoError(t, errors.Join(os.Symlink(filepath.Join(host(t, machine), "sys"), next), os.Rename(next, sys)))
	}
	feed := events{make(chan []byte)}
	old := openUevents
	openUevents = func() (io.ReadCloser, error) { return feed, nil }
	defer func() { openUevents = old }()

	become("none")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	var stdout, stderr bytes.Buffer
	go func() {
		done <- run(ctx, []string{"watch", "--no-hook", "--host-root", root, "--to", dir}, &stdout, &stderr)
	}()
	for _, step := range []struct{ machine, device string }{{"roce-lag", "mlx5_bond_0"}, {"soft", "rxe0"}, {"none", ""},
		{"soft", "rxe3"}} {
		become(step.machine)
		feed.messages <- []byte("add@/devices/x\x00SUBSYSTEM=infiniband\x00")
		await(t, step.machine, func() bool {
			data, err := os.ReadFile(file)
			if step.device == "" {
				return errors.Is(err, os.ErrNotExist)
			}
			return strings.Contains(string(data), "name: "+step.device+"\n")
		})
	}
	// A node that is made later than the kernel's event.
	put(t, filepath.Join(root, "dev/null"), "", 0o666)
	feed.messages <- []byte("add@/devices/x\x00SUBSYSTEM=infiniband\x00")
	await(t, "missing nodes", func() bool { _, err := os.Stat(file); return errors.Is(err, os.ErrNotExist) })
	put(t, filepath.Join(root, "dev/infiniband/uverbs0"), "", 0o666)
	await(t, "late node", func() bool { _, err := os.Stat(file); return err == nil })
	cancel()
	close(feed.messages)
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "removed: its devices are gone") ||
		strings.Contains(stderr.String(), "up to date") {
		t.Errorf("standard output %q, standard error:\n%s", &stdout, &stderr)
	}
	cdigen(t, "watch").expect(t, exitUsage, "with --to")
	cdigen(t, "watch", "--to", dir, "--names", "x").expect(t, exitUsage, "--names")
}

// await waits for a condition.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		must.False(t, time.Now().After(deadline), must.Sprintf("%s: the condition does not come true", what))
	}
}
