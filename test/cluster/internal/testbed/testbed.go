// Package testbed gives end-to-end tests a cluster with a bundled host and the
// driver, and the words to say what users rely on: what a container sees, what a pod's
// events say.
//
// A test package has one Bed, which Main sets up for all its tests.
package testbed

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/kubectl"
)

// Options say what the tests of a package need.
type Options struct {
	// Machine is the bundled host.
	Machine string
	// Cluster is what cluster; its directories are chosen by Main.
	Cluster cluster.Options
	// Values are the chart's, as a YAML text, beside those of the test bed.
	Values string
	// GPUs runs the driver of the host's GPUs beside the one under test.
	GPUs bool
}

// Bed is a cluster with the driver on a bundled host.
type Bed struct {
	*cluster.Cluster
	Checkout deploy.Checkout
	// HostRoot has the host's sys and, inside the cluster, its dev.
	HostRoot string

	options cluster.Options
	kubectl kubectl.Client
	dir     string
	values  string
}

// Main is TestMain: it sets *bed up, runs the tests and takes everything down.
// Process 1 of the cluster is the calling program, so cluster.Init goes first.
func Main(m *testing.M, o Options, bed **Bed) {
	cluster.Init()
	code, err := run(m, o, bed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		if code = 0; needs.CI() || os.Geteuid() == 0 {
			code = 1
		}
	}
	os.Exit(code)
}

func run(m *testing.M, o Options, bed **Bed) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("skipped: the cluster needs root: run `make proof`, or this as root")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "rdma-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	b, err := prepare(ctx, o, dir)
	if err != nil {
		return 1, err
	}
	b.takeDownOnSignal()
	if b.Cluster, err = cluster.Up(ctx, b.options); err != nil {
		return 1, err
	}
	defer func() {
		if downErr := cluster.Down(context.Background(), b.options, false); err == nil {
			err = downErr
		}
	}()
	api, err := b.Forward()
	if err != nil {
		return 1, err
	}
	defer api.Close()
	b.kubectl = kubectl.Client{Kubeconfig: b.Kubeconfig(), Cache: filepath.Join(dir, "kubectl"),
		Server: "https://" + api.Addr().String(), ServerName: cluster.ServiceIP}
	if err := b.install(ctx, o); err != nil {
		return 1, err
	}
	*bed = b
	return m.Run(), nil
}

// prepare makes in a directory what the cluster needs before it starts.
func prepare(ctx context.Context, o Options, dir string) (*Bed, error) {
	checkout, err := deploy.FindCheckout()
	if err != nil {
		return nil, err
	}
	b := &Bed{Checkout: checkout, HostRoot: filepath.Join(dir, "host"), options: o.Cluster, dir: dir, values: o.Values}
	b.options.HostRoot, b.options.StateDir, b.options.Progress = b.HostRoot, filepath.Join(dir, "cluster"), os.Stderr
	if err := checkout.ExtractHost(ctx, o.Machine, b.HostRoot); err != nil {
		return nil, err
	}
	if !o.GPUs {
		return b, nil
	}
	return b, checkout.Build(ctx, "./test/gpudriver", b.gpuDriver())
}

func (b *Bed) install(ctx context.Context, o Options) error {
	if err := b.Checkout.Load(ctx, b.Cluster); err != nil {
		return err
	}
	if o.GPUs {
		if err := b.startGPUs(ctx, b.HostRoot); err != nil {
			return err
		}
	}
	return b.upgrade(ctx, b.values)
}

// takeDownOnSignal ends the tests, and the cluster with them: it is a session of
// its own, which Ctrl-C and a closed terminal do not reach.
func (b *Bed) takeDownOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := <-signals
		fmt.Fprintf(os.Stderr, "e2e: %v: taking the cluster down\n", s)
		for _, o := range []cluster.Options{b.second(), b.options} {
			if err := cluster.Down(context.Background(), o, false); err != nil {
				fmt.Fprintln(os.Stderr, "e2e:", err)
			}
		}
		os.RemoveAll(b.dir)
		os.Exit(1)
	}()
}

func (b *Bed) kubeletDir() string { return cmp.Or(b.options.KubeletDir, cluster.DefaultKubeletDir) }

// StateDir is a path below the directory where the driver keeps what it knows of claims.
func (b *Bed) StateDir(elem ...string) string {
	return filepath.Join(append([]string{"/run/rdma.dev/state"}, elem...)...)
}

// PluginDir is a path below the directory that the driver has from the kubelet.
func (b *Bed) PluginDir(elem ...string) string {
	return filepath.Join(append([]string{b.kubeletDir(), "plugins", "rdma.dev"}, elem...)...)
}

func (b *Bed) gpuDriver() string { return filepath.Join(b.dir, "gpudriver") }

// startGPUs starts the GPU driver, as a process on the node that ends with the cluster, and makes its class.
func (b *Bed) startGPUs(ctx context.Context, hostRoot string) error {
	log, err := os.Create(filepath.Join(b.dir, "gpudriver-"+b.node()+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := b.Command(context.WithoutCancel(ctx), b.gpuDriver(), "--node", b.node(), "--host-root", hostRoot,
		"--kubelet-dir", b.kubeletDir())
	cmd.Stdout, cmd.Stderr = log, log
	if _, err := b.Begin(cmd); err != nil {
		return fmt.Errorf("start the GPU driver: %w", err)
	}
	_, err = b.Cluster.Output(ctx, "kubectl", "apply", "-f", b.Checkout.Path("test", "gpudriver", "deviceclass.yaml"))
	return err
}

// Output runs a program in the cluster's namespaces, and kubectl as ask does.
func (b *Bed) Output(name string, args ...string) (string, error) {
	if name != "kubectl" {
		return b.Cluster.Output(context.Background(), name, args...)
	}
	var stdout, stderr strings.Builder
	err := b.ask(context.Background(), "", &stdout, &stderr, args)
	if err != nil {
		err = fmt.Errorf("run kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), err
}

// ask runs kubectl: in this process where that is the same, and the program for an older Kubernetes, to which an older
// kubectl belongs.
func (b *Bed) ask(ctx context.Context, input string, stdout, stderr io.Writer, args []string) error {
	if b.options.Kubernetes == "" && kubectl.Fits(args) {
		return b.kubectl.Run(ctx, input, stdout, stderr, args...)
	}
	cmd := b.Command(ctx, "kubectl", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), stdout, stderr
	return b.Run(cmd)
}

// Inside is Output for a program that must succeed.
func (b *Bed) Inside(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := b.Output(name, args...)
	must.NoError(t, err)
	return out
}

// Kubectl runs kubectl, which must succeed.
func (b *Bed) Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return b.Inside(t, "kubectl", args...)
}

// KubectlInput runs kubectl with a manifest and returns all that it prints.
func (b *Bed) KubectlInput(t *testing.T, manifest string, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := b.ask(t.Context(), manifest, &out, &out, args)
	return out.String(), err
}

// DriverLog is what the driver's pods have logged.
func (b *Bed) DriverLog() string {
	out, err := b.Output("kubectl", "--namespace", deploy.Namespace, "logs", "--all-containers", "--prefix", "--tail=-1",
		"--selector=app.kubernetes.io/name="+deploy.Release)
	if err != nil {
		return err.Error()
	}
	return out
}

// Gone waits until a file of the node is gone.
func (b *Bed) Gone(t *testing.T, path string) {
	t.Helper()
	Eventually(t, "removal of "+path, func() error {
		if _, err := b.Output("test", "!", "-e", path); err != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}
