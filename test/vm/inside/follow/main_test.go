// Package follow holds tests that run inside the virtual machine, whose RDMA subsystem is
// in exclusive network namespace mode: HCAs that follow pods, with the kubelet, containerd and
// its NRI as they are. The machine is the node of a control plane on the host.
package follow

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// patience is for emulated time, on a busy host.
const patience = 10 * time.Minute

var (
	node   *cluster.Cluster     // containerd and the kubelet
	client kubernetes.Interface // of the control plane
)

func TestMain(m *testing.M) {
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

// setUp joins the machine to the control plane, which has the driver's DaemonSet already.
func setUp(ctx context.Context) (err error) {
	// While there is no namespace but the first one the kernel lets the mode be changed.
	if r := inside.Run("rdma", "system", "set", "netns", "exclusive"); r.Code != 0 {
		return fmt.Errorf("set the mode to exclusive: %s", r.Out)
	}
	options := cluster.Options{
		WholeMachine: true, Join: os.Getenv("CONTROL_PLANE"), Progress: os.Stdout,
		Images: []string{os.Getenv("DRIVER_ARCHIVE"), os.Getenv("TOOLS_ARCHIVE")},
	}
	if node, err = cluster.Up(ctx, options); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", node.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	for ; ; time.Sleep(100 * time.Millisecond) {
		offered, err := offers(ctx)
		if err == nil && len(offered) > 0 {
			fmt.Println("the driver has published", offered)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the driver to publish: %w\n%s", err, said(context.Background()))
		}
	}
}
