package sockets_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/sockets"
)

// listen makes a socket, and returns its listener. The file stays when it is closed, as when
// its process is killed.
func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.NoError(t, err)
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	listen(t, path("ours-alive.sock"))
	for _, name := range []string{"ours-dead.sock", "ours-young.sock", "theirs-dead.sock"} {
		listen(t, path(name)).Close()
	}
	must.NoError(t, os.WriteFile(path("ours-file.sock"), nil, 0o600))
	hourAgo := time.Now().Add(-time.Hour)
	for _, name := range []string{"ours-alive.sock", "ours-dead.sock", "theirs-dead.sock", "ours-file.sock"} {
		must.NoError(t, os.Chtimes(path(name), hourAgo, hourAgo))
	}
	removed, err := sockets.Sweep(time.Minute, path("ours-*.sock"), path("missing/*.sock"))
	if err != nil || !slices.Equal(removed, []string{path("ours-dead.sock")}) {
		t.Errorf("removed %v, %v; want the dead one of ours that is old", removed, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("left are %v (%v), want four", entries, err)
	}
}

func TestBadPattern(t *testing.T) {
	if removed, err := sockets.Sweep(time.Minute, "["); err == nil || removed != nil {
		t.Errorf("removed %v, %v; want an error", removed, err)
	}
}

func ExampleSweep() {
	removed, err := sockets.Sweep(time.Minute, "/nonexistent/plugins_registry/rdma.dev-*-reg.sock")
	fmt.Println(removed, err)
	// Output: [] <nil>
}
