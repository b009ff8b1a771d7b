package dra_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

func ExampleDriver_Run() {
	config, err := rest.InClusterConfig()
	if err != nil {
		fmt.Println(err)
		return
	}
	config.QPS = -1 // each claim is one GET; the default would let five a second through
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	driver, err := dra.New(dra.Config{
		NodeName: "node1", HostRoot: "/", KubeletDir: "/var/lib/kubelet", StateDir: "/run/rdma.dev/state", CDIDir: "/var/run/cdi",
		Site: plan.DefaultSite(),
	}, client)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := driver.Run(ctx); err != nil {
		fmt.Println(err)
	}
}
