// Package joined makes the virtual machine the node of a control plane on the host: with
// containerd and the kubelet, and with the driver, whose DaemonSet the control plane has already.
package joined

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// patience is for emulated time, on a busy host.
const patience = 25 * time.Minute

// Main is the TestMain of a package of tests that run on the node.
func Main(m *testing.M, setUp func(context.Context) error) {
	cluster.Init() // process 1 of the cluster is this program, started again
	vmtest.Guard()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	err := setUp(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up the node:", err)
		os.Exit(1)
	}
	// The machine ends with the tests, so nothing is taken down.
	os.Exit(m.Run())
}

// Up joins the control plane. The node is the whole machine: what happens to its devices and
// links the driver hears. The feature gates are those of the control plane.
func Up(ctx context.Context, gates map[string]bool) (*cluster.Cluster, error) {
	return cluster.Up(ctx, cluster.Options{
		WholeMachine: true, Join: os.Getenv("CONTROL_PLANE"), FeatureGates: gates, Progress: os.Stdout,
		Images: []string{os.Getenv("DRIVER_ARCHIVE"), os.Getenv("TOOLS_ARCHIVE")},
	})
}

// Said is what one wants to see when something does not happen: of the driver, the kubelet and
// containerd.
func Said(ctx context.Context, node *cluster.Cluster) string {
	return deploy.Said(ctx, node,
		[]string{"tail", "-n", "40", node.LogFile(cluster.Kubelet)},
		[]string{"tail", "-n", "40", node.LogFile(cluster.Containerd)})
}
