package cluster_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// A program brings the cluster up, uses it as a person would, and takes it down.
func Example() {
	cluster.Init() // first: process 1 of the cluster is this program again
	ctx := context.Background()
	options := cluster.Options{Progress: os.Stderr}
	c, err := cluster.Up(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Down(ctx, options, false)
	nodes, err := c.Output(ctx, "kubectl", "get", "nodes", "-o", "name")
	fmt.Println(nodes, err)
}
