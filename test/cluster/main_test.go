package cluster_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

func TestMain(m *testing.M) {
	cluster.Init()
	os.Exit(m.Run())
}

// options are a cluster of this test's own: its progress and its end go to the test.
func options(t *testing.T) cluster.Options {
	t.Helper()
	needs.Root(t, "the cluster mounts and makes namespaces")
	return cluster.Options{StateDir: t.TempDir() + "/state", Progress: testWriter{t}}
}

// up brings a cluster up for the length of the test.
func up(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	t.Cleanup(func() {
		test.NoError(t, cluster.Down(context.Background(), o, false), test.Sprint("down"))
	})
	c, err := cluster.Up(t.Context(), o)
	must.NoError(t, err)
	return c
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// inside runs a program in the cluster and returns its trimmed output.
func inside(t *testing.T, c *cluster.Cluster, name string, args ...string) string {
	t.Helper()
	out, err := c.Output(t.Context(), name, args...)
	must.NoError(t, err)
	return strings.TrimSpace(out)
}

// apply creates the objects of a manifest and waits until its pods are ready.
func apply(t *testing.T, c *cluster.Cluster, manifest string) {
	t.Helper()
	cmd := c.Command(t.Context(), "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must.NoError(t, c.Run(cmd), must.Sprintf("apply: %s", out.String()))
	if _, err := c.Output(t.Context(), "kubectl", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s"); err != nil {
		describe, _ := c.Output(t.Context(), "kubectl", "describe", "pods")
		t.Fatalf("%v\n%s", err, describe)
	}
}
