package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpudriver:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct{ node, hostRoot, kubeletDir, cdiDir, kubeconfig string }

func run(ctx context.Context, args []string, env func(string) string, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("gpudriver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.node, "node", env("NODE_NAME"), "Kubernetes name of this node")
	flags.StringVar(&o.hostRoot, "host-root", "/", "directory that holds the host's sys")
	flags.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "root directory of the kubelet")
	flags.StringVar(&o.cdiDir, "cdi-dir", cdi.DynamicDir, "directory for the CDI specs of claims")
	flags.StringVar(&o.kubeconfig, "kubeconfig", env("KUBECONFIG"), "kubeconfig file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	gpus, err := discover(o.hostRoot)
	if err != nil {
		return err
	}
	return serve(ctx, o, gpus)
}

// discover reads the host once: nobody plugs a GPU into a test.
func discover(hostRoot string) ([]resourceslice.Slice, error) {
	sys := sysfs.DirFS(filepath.Join(hostRoot, "sys"))
	snap, err := rdma.Discover(sys)
	if err != nil {
		return nil, err
	}
	return slices(topology.Discover(sys, snap)), nil
}

// serve publishes the GPUs and answers the kubelet until ctx ends.
func serve(ctx context.Context, o options, gpus []resourceslice.Slice) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("configure the Kubernetes client: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("configure the Kubernetes client: %w", err)
	}
	data := filepath.Join(o.kubeletDir, "plugins", driverName)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return fmt.Errorf("make the plugin's directory: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	helper, err := kubeletplugin.Start(ctx, &driver{specs: cdi.Store{Dir: o.cdiDir}, fail: fail},
		kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(o.node), kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(o.kubeletDir, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return fmt.Errorf("start the kubelet plugin: %w", err)
	}
	defer helper.Stop()
	err = helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{o.node: {Slices: gpus}}})
	if err != nil {
		return fmt.Errorf("publish GPUs: %w", err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func isRecoverable(err error) bool { return errors.Is(err, kubeletplugin.ErrRecoverable) }
