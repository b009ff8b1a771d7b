// Package follow holds tests that run inside the virtual machine, whose RDMA subsystem is
// in exclusive network namespace mode: HCAs that follow pods, with the kubelet, containerd and
// its NRI as they are. The machine is the node of a control plane on the host.
package follow

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/joined"
)

var (
	node   *cluster.Cluster // containerd and the kubelet
	config *rest.Config     // of the control plane
	client kubernetes.Interface
)

func TestMain(m *testing.M) { joined.Main(m, setUp) }

func setUp(ctx context.Context) (err error) {
	// While there is no namespace but the first one the kernel lets the mode be changed.
	if r := inside.Run("rdma", "system", "set", "netns", "exclusive"); r.Code != 0 {
		return fmt.Errorf("set the mode to exclusive: %s", r.Out)
	}
	if node, err = joined.Up(ctx, cluster.WithPodGroupClaims(cluster.Options{}).FeatureGates); err != nil {
		return err
	}
	if config, err = drivertest.ConfigOf(node.Kubeconfig()); err != nil {
		return err
	}
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
			return fmt.Errorf("wait for the driver to publish: %w\n%s", err, joined.Said(context.Background(), node))
		}
	}
}
