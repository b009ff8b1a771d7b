// Package driver holds tests that run inside the virtual machine: the driver in the test's
// process, on a real RDMA kernel, with a real API server alone and a kubelet of the
// test's. Links, devices and modules go away and come back under it.
package driver

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// patience is for emulated time.
const patience = 10 * time.Minute

// server is the API server of all tests.
var server *cluster.ControlPlane

func TestMain(m *testing.M) {
	vmtest.Guard()
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	klog.SetOutput(os.Stdout)
	klog.LogToStderr(false)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	var err error
	server, err = cluster.StartControlPlane(ctx, "/root/server", cluster.Options{Progress: os.Stdout})
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start an API server:", err)
		os.Exit(1)
	}
	// The machine ends with the tests, so nothing is taken down.
	os.Exit(m.Run())
}
