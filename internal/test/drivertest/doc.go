// Package drivertest is a node for tests of the driver: everything that a driver
// talks to, so that the real driver, in the test's process or as a program, runs
// against the real protocols.
//
//	Host       a fixture machine's /sys and /dev, which may change under the driver
//	API        an API server over HTTP: nodes, claims, slices with watch, events
//	Kubelet    a kubelet: plugin registration, NodePrepareResources, health, pod resources
//	Clock      the node's clock, which somebody sets
//	Process    the driver as a program, which may be killed
//
// The fakes count what they are asked, and can be told to fail. They hold no
// policy of their own: a test decides.
package drivertest

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// patience is how long a condition may take on a busy machine.
const patience = 30 * time.Second

// Eventually waits until the condition returns nil, and fails the test with its
// last error when that takes too long.
func Eventually(t testing.TB, condition func() error) {
	t.Helper()
	must.NoError(t, Await(patience, condition), must.Sprintf("still after %v", patience))
}

// Await waits until the condition returns nil, for so long. It returns the condition's last
// error. Most of the time it leaves the processor to what it waits for, however much a look
// at the condition costs.
func Await(long time.Duration, condition func() error) error {
	deadline := time.Now().Add(long)
	for {
		began := time.Now()
		err := condition()
		if err == nil || began.After(deadline) {
			return err
		}
		time.Sleep(max(2*time.Millisecond, 3*time.Since(began)))
	}
}

// Context returns a context that ends before the test's patience does.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TempDir returns a directory with a short path, since the path of a unix socket
// has at most 108 bytes, and in memory where there is a file system for it.
func TempDir(t testing.TB) string {
	t.Helper()
	parent := "/dev/shm"
	if unix.Access(parent, unix.W_OK) != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "rdma-")
	must.NoError(t, err)
	t.Cleanup(func() {
		test.NoError(t, os.RemoveAll(dir), test.Sprint("clean up"))
	})
	return dir
}

// Seed returns a seed for random numbers, that of an environment variable where it is set, and
// says how to have it again.
func Seed(t testing.TB, variable string) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	t.Logf("%s=%d repeats this run", variable, seed)
	return seed
}

// RequireRoot skips a test that makes device nodes or mounts.
func RequireRoot(t testing.TB) {
	t.Helper()
	needs.Root(t, "device nodes and mounts (CAP_MKNOD, CAP_SYS_ADMIN)")
}
