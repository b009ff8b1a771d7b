package rdmanetns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// newNamespace makes a namespace that lives until the test ends.
func newNamespace(t *testing.T) *Namespace {
	t.Helper()
	needs.Root(t, "network namespaces")
	var ns *Namespace
	var err error
	thread.Do(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			ns, err = Own()
		}
	})
	must.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns
}

// TestDo: what is done in a namespace happens there, and nothing else does.
func TestDo(t *testing.T) {
	ns, other := newNamespace(t), newNamespace(t)
	own, err := Own()
	must.NoError(t, err)
	defer own.Close()
	if ns.Same(other) || ns.Same(own) || !ns.Same(ns) {
		t.Error("namespaces are not told apart")
	}
	add := func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "inside"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer"})
	}
	must.NoError(t, ns.do(add))
	look := func() error { _, err := netlink.LinkByName("inside"); return err }
	test.NoError(t, ns.do(look))
	for _, n := range []*Namespace{other, own} {
		test.True(t, errors.As(n.do(look), &netlink.LinkNotFoundError{}), test.Sprintf("in %s", n))
	}
}

// TestThreads: no thread stays in a namespace, not even the process's main one, which
// would keep the namespace from ending.
func TestThreads(t *testing.T) {
	ns := newNamespace(t)
	own, err := Own()
	must.NoError(t, err)
	defer own.Close()
	var calls sync.WaitGroup
	for range 200 {
		calls.Go(func() {
			test.NoError(t, ns.do(func() error { runtime.Gosched(); return nil }))
		})
	}
	calls.Wait()
	for left := true; left; { // threads end a moment later
		tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
		must.NoError(t, err)
		left = slices.ContainsFunc(tasks, func(task string) bool {
			n, err := Open(task)
			if err != nil {
				return false // it has ended
			}
			defer n.Close()
			return n.Same(ns)
		})
	}
}

// TestOpen: a namespace that ended leaves an empty file behind.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	ended := filepath.Join(dir, "ended")
	must.NoError(t, os.WriteFile(ended, nil, 0o644))
	for _, path := range []string{ended, filepath.Join(dir, "never")} {
		if _, err := Open(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("open %q: %v, want that it does not exist", path, err)
		}
	}
}
