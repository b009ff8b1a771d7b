// Command demo shows the main job of the project on a real Kubernetes cluster with
// a bundled host: one HCA for two containers of a pod, with locked memory that
// works, and nothing for a container that asks for nothing; then why a pod waits.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

func main() {
	cluster.Init()
	keep := flag.Bool("keep", false, "leave the cluster running")
	machine := flag.String("machine", "hgx-h100", "the bundled host")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *machine, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, machine string, keep bool) (err error) {
	checkout, err := deploy.FindCheckout()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rdma-demo-")
	if err != nil {
		return err
	}
	options := cluster.Options{HostRoot: filepath.Join(dir, "host"), StateDir: filepath.Join(dir, "cluster"), Progress: os.Stderr}
	if !keep {
		defer func() {
			// Also after Ctrl-C: the cluster must not outlive the demo.
			fmt.Fprintln(os.Stderr, "\ntaking the cluster down")
			if downErr := cluster.Down(context.WithoutCancel(ctx), options, false); err == nil {
				err = downErr
			}
			_ = os.RemoveAll(dir)
		}()
	}
	d := &demo{checkout: checkout, options: options, machine: machine}
	for _, step := range []func(context.Context) error{
		d.host, d.cluster, d.install, d.twoContainers, d.waitingPod, d.cleanUp,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if keep {
		command := fmt.Sprintf("  go -C %s run ./cmd/cluster %%s --state-dir %s", checkout.Path("test", "cluster"), options.StateDir)
		fmt.Printf("\nThe cluster goes on. As root, look around with\n\n"+command+" -- kubectl get pods -A\n\nand take it down with\n\n"+command+"\n", "exec", "down")
	}
	return nil
}
