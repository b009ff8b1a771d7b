package latency

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/shoenig/test/must"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// server is the API server of all tests.
var server *cluster.ControlPlane

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "latency-")
	if err == nil {
		defer os.RemoveAll(dir)
		server, err = cluster.StartControlPlane(context.Background(), dir, cluster.Options{Progress: os.Stderr})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start an API server:", err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// config is the way to the API server.
func config(t testing.TB) *rest.Config {
	t.Helper()
	c, err := drivertest.ConfigOf(server.Kubeconfig())
	must.NoError(t, err)
	return c
}

func client(t testing.TB, c *rest.Config) kubernetes.Interface {
	t.Helper()
	out, err := kubernetes.NewForConfig(c)
	must.NoError(t, err)
	return out
}
