// Package e2e proves the driver on a real one-node cluster: each test asserts what
// a user relies on, from inside the containers wherever that is possible.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// machine is the bundled host: eight HCAs for GPUs and one beside them.
const machine = "hgx-h100"

// What all tests use. The cluster and the driver are set up once.
var (
	kube     *cluster.Cluster
	checkout deploy.Checkout
	hostRoot string
)

func TestMain(m *testing.M) {
	cluster.Init()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		if code = 0; os.Getenv("CI") != "" || os.Geteuid() == 0 {
			code = 1
		}
	}
	os.Exit(code)
}

// run brings up the cluster, installs the driver from its image and chart, runs the
// tests and takes everything down.
func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("skipped: the cluster needs root; run `make test`")
	}
	if checkout, err = deploy.FindCheckout(); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "rdma-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	hostRoot = filepath.Join(dir, "host")
	if err := checkout.ExtractHost(ctx, machine, hostRoot); err != nil {
		return 1, err
	}
	options := cluster.Options{
		HostRoot: hostRoot,
		StateDir: filepath.Join(dir, "cluster"),
		Progress: os.Stderr,
		// The admission policies must hold for claims in the older versions too.
		RuntimeConfig: "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
	}
	takeDownOnSignal(options)
	if kube, err = cluster.Up(ctx, options); err != nil {
		return 1, err
	}
	defer func() {
		if downErr := cluster.Down(context.Background(), options, false); err == nil {
			err = downErr
		}
	}()
	if err := checkout.Load(ctx, kube); err != nil {
		return 1, err
	}
	if err := checkout.Install(ctx, kube, hostRoot); err != nil {
		logs, _ := kube.Output(ctx, "kubectl", "--namespace", deploy.Namespace, "describe", "pods")
		return 1, fmt.Errorf("%w\n%s", err, logs)
	}
	return m.Run(), nil
}

// takeDownOnSignal ends the tests, and the cluster with them: it is a session of
// its own, which Ctrl-C and a closed terminal do not reach.
func takeDownOnSignal(options cluster.Options) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := <-signals
		fmt.Fprintf(os.Stderr, "e2e: %v: taking the cluster down\n", s)
		if err := cluster.Down(context.Background(), options, false); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
		}
		os.Exit(1)
	}()
}
