// Package deploy puts a fixture host, the driver and manifests on the embedded
// cluster, the way a user would: with the image, helm and kubectl. The demo and
// the end-to-end tests share it.
package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/checkout"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// What the driver is installed as.
const (
	Namespace = "dra-driver-rdma"
	Release   = "dra-driver-rdma"
	ImageName = "localhost/dra-driver-rdma"
	ImageTag  = "testbed"
)

// exampleImage is the image of the example manifests. The cluster reaches no
// registry, so its own busybox gets that name.
const exampleImage = "docker.io/library/busybox:1.37"

// Checkout is the top directory of a checkout of the project.
type Checkout string

// FindCheckout is checkout.Root.
func FindCheckout() (Checkout, error) {
	dir, err := checkout.Root()
	return Checkout(dir), err
}

// Path joins a path below the checkout.
func (c Checkout) Path(parts ...string) string {
	return filepath.Join(append([]string{string(c)}, parts...)...)
}

// Program is a program that `make build` left in bin.
func (c Checkout) Program(name string) string { return c.Path("bin", name) }

// Image is the archive that `make testbed-image` left in bin.
func (c Checkout) Image() string { return c.Path("bin", "image.tar") }

// Chart is the directory of the Helm chart.
func (c Checkout) Chart() string { return c.Path("deployments", "helm", "dra-driver-rdma") }

// Example is the path of an example manifest.
func (c Checkout) Example(name string) string { return c.Path("examples", name+".yaml") }

// ExtractHost writes the sysfs of a bundled fixture machine below dir.
func (c Checkout) ExtractHost(ctx context.Context, machine, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "run", "./tools/machine", "extract", machine, dir)
	cmd.Dir = string(c)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("extract fixture machine %s: %w: %s", machine, err, strings.TrimSpace(string(out)))
	}
	// The cluster has its own cgroups there, which tell the driver which pods run.
	return os.MkdirAll(filepath.Join(dir, "sys/fs/cgroup"), 0o755)
}

// Build builds a program of the main module.
func (c Checkout) Build(ctx context.Context, program, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, program)
	cmd.Dir = string(c)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Load puts the driver's image and the image of the examples into containerd.
func (c Checkout) Load(ctx context.Context, cl *cluster.Cluster) error {
	if err := cl.Load(ctx, c.Image()); err != nil {
		return fmt.Errorf("%w (is it built? make testbed-image)", err)
	}
	_, err := cl.Output(ctx, "ctr", "images", "tag", "--force", cluster.BusyboxImage, exampleImage)
	return err
}

// Runner runs programs of a cluster: a *cluster.Cluster or a *cluster.ControlPlane.
type Runner interface {
	Output(ctx context.Context, name string, args ...string) (string, error)
}

// Install installs or upgrades the driver with helm and waits until it is ready.
// Further arguments go to helm: --values FILE.
func (c Checkout) Install(ctx context.Context, cl Runner, hostRoot string, further ...string) error {
	args := []string{"upgrade", "--install", Release, c.Chart(), "--namespace", Namespace, "--create-namespace",
		"--set", "image.repository=" + ImageName, "--set", "image.tag=" + ImageTag, "--set", "image.pullPolicy=Never",
		"--set", "testing.hostRoot=" + hostRoot, "--wait", "--timeout", "120s"}
	_, err := cl.Output(ctx, "helm", append(args, further...)...)
	return err
}

// Said is what one wants to see when something does not happen: the driver's pods with their events, the ends of their
// logs, and what further commands print.
func Said(ctx context.Context, cl Runner, further ...[]string) string {
	var b strings.Builder
	for _, args := range append([][]string{
		{"kubectl", "--namespace", Namespace, "describe", "pods"},
		{"kubectl", "--namespace", Namespace, "logs", "--all-containers", "--tail=60", "--selector=app.kubernetes.io/name=" + Release},
	}, further...) {
		out, err := cl.Output(ctx, args[0], args[1:]...)
		fmt.Fprintln(&b, "---", strings.Join(args, " "), err)
		fmt.Fprintln(&b, out)
	}
	return b.String()
}
