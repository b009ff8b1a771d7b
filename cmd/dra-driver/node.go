package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// nodeFlags are the flags for reading the node object.
type nodeFlags struct{ name, kubeconfig string }

func (n *nodeFlags) register(f *pflag.FlagSet, env func(string) string) {
	f.StringVar(&n.name, "node-name", env("NODE_NAME"), "Kubernetes `NAME` of this node, for its blocks of addresses "+
		"(default $NODE_NAME)")
	f.StringVar(&n.kubeconfig, "kubeconfig", env("KUBECONFIG"),
		"kubeconfig `FILE` (default $KUBECONFIG, else the pod's service account)")
}

// nodeTime bounds the wait for the API server. The rest of the output does not need it.
const nodeTime = 5 * time.Second

// read gets the node from the API server.
func (n *nodeFlags) read(ctx context.Context) (own blocks.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	client, _, err := newClient(n.kubeconfig)
	var node *corev1.Node
	if err == nil {
		node, err = client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	}
	if err == nil {
		err = answer.About(node, "", n.name)
	}
	if err != nil {
		return own, fmt.Errorf("get node %s for its block of addresses: %w", n.name, err)
	}
	return blocks.NodeOf(node), nil
}
