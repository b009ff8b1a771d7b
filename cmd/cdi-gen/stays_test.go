package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// A spec stays right, stays alone, and stays ours: what generate and watch do with the
// files that are there.

const gpuSpec = "cdiVersion: 0.3.0\nkind: nvidia.com/gpu\ndevices: [{name: gpu0, containerEdits: {env: [A=B]}}]\n"

// program runs the program as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return programContext(t.Context(), t, args...)
}

func programContext(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must.NoError(t, err)
	cmd := exec.CommandContext(ctx, self, args...)
	// Programs with the race detector sleep for a second before they end.
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// TestTwoProcesses: whatever two processes write at once, one whole file is left.
func TestTwoProcesses(t *testing.T) {
	one, two := []string{"--host-root", host(t, "roce-lag")}, []string{"--host-root", host(t, "hgx-h100")}
	for _, formats := range [][]string{{"yaml", "yaml"}, {"yaml", "json"}} {
		for range 20 {
			dir := filepath.Join(t.TempDir(), "cdi")
			var group sync.WaitGroup
			for i, machine := range [][]string{one, two} {
				cmd := program(t, append(machine, "generate", "--no-hook", "--to", dir, "--output", formats[i])...)
				group.Go(func() {
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				})
			}
			group.Wait()
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Fatalf("files %v, error %v; want one", entries, err)
			}
			cdigen(t, "validate", filepath.Join(dir, entries[0].Name())).expect(t, exitOK, "")
		}
	}
}

// TestWatchIsReady: systemd hears of it when the first spec is there, and not before.
func TestWatchIsReady(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	must.NoError(t, err)
	defer conn.Close()
	cmd := program(t, "watch", "--no-hook", "--host-root", host(t, "roce-lag"), "--to", filepath.Join(dir, "cdi"))
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must.NoError(t, cmd.Start())
	buf := make([]byte, 64)
	must.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("systemd hears %q, error %v", buf[:n], err)
	}
	holds(t, filepath.Join(dir, "cdi"), "rdma.dev-hca.yaml")
	if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	// A socket that nobody listens to is said, and no reason to end.
	test.ErrorContains(t, notifyReady(filepath.Join(dir, "absent")), "tell systemd that the spec is there",
		test.Sprint("no socket"))
}
