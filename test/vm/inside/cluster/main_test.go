// Package cluster holds tests that run inside the virtual machine, on the embedded
// cluster: the driver, from its image and chart, on a real RDMA kernel, with real
// traffic between containers.
package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// patience is for emulated time.
const patience = 25 * time.Minute

// kube is the cluster, with the driver installed.
var kube *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Init() // process 1 of the cluster is this program, started again
	vmtest.Guard()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	err := setUp(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up the cluster:", err)
		os.Exit(1)
	}
	// The machine ends with the tests, so nothing is taken down.
	os.Exit(m.Run())
}

// setUp joins the machine to the control plane, which has the driver's DaemonSet already.
func setUp(ctx context.Context) (err error) {
	// The guest is the node: what happens to its devices and links the driver hears.
	options := cluster.Options{
		WholeMachine: true, Join: os.Getenv("CONTROL_PLANE"), Progress: os.Stdout,
		Images: []string{os.Getenv("DRIVER_ARCHIVE"), os.Getenv("TOOLS_ARCHIVE")},
	}
	if kube, err = cluster.Up(ctx, options); err != nil {
		return err
	}
	if _, err := kube.Output(ctx, "kubectl", "wait", "--for=create", "resourceslice", "--field-selector", "spec.driver=rdma.dev", "--timeout=10m"); err != nil {
		return fmt.Errorf("%w\n%s", err, driverState(ctx))
	}
	_, err = kube.Output(ctx, "kubectl", "wait", "--for=create", "serviceaccount/default", "--timeout=10m")
	return err
}

// driverState is what one wants to see when the driver does not do what it should.
func driverState(ctx context.Context) string {
	var b strings.Builder
	for _, args := range [][]string{
		{"--namespace", deploy.Namespace, "describe", "pods"},
		{"--namespace", deploy.Namespace, "logs", "--all-containers", "--tail=40", "--selector", "app.kubernetes.io/name=dra-driver-rdma"},
	} {
		out, err := kube.Output(ctx, "kubectl", args...)
		fmt.Fprintln(&b, out, err)
	}
	return b.String()
}

// kubectl runs kubectl, again where nobody answered: while the emulated machine stands
// still, kubectl gives up after ten seconds.
func kubectl(t *testing.T, args ...string) (out string) {
	t.Helper()
	answered(t, func() (err error) {
		out, err = kube.Output(t.Context(), "kubectl", args...)
		return err
	})
	return out
}

// answered tries until the API server has answered, and fails the test if it says no.
func answered(t *testing.T, try func() error) {
	t.Helper()
	var err error
	inside.Eventually(t, "the API server answers", 2*time.Minute, func() error {
		if err = try(); err != nil && strings.Contains(err.Error(), "Unable to connect to the server") {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// apply applies a manifest given as text.
func apply(t *testing.T, manifest string) {
	t.Helper()
	answered(t, func() error {
		cmd := kube.Command(t.Context(), "kubectl", "apply", "-f", "-")
		cmd.Stdin = strings.NewReader(manifest)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := kube.Run(cmd); err != nil {
			return fmt.Errorf("apply: %w: %s\n%s", err, &out, manifest)
		}
		return nil
	})
}

// succeeds waits until all containers of a pod have ended well; otherwise it says what
// they said.
func succeeds(t *testing.T, pod string, containers ...string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		phase := kubectl(t, "get", "pod", pod, "-o", "jsonpath={.status.phase}")
		if phase == "Succeeded" {
			return
		}
		if phase == "Failed" || time.Now().After(deadline) {
			var said strings.Builder
			for _, c := range containers {
				out, err := kube.Output(t.Context(), "kubectl", "logs", pod, "-c", c)
				fmt.Fprintln(&said, c, "said:", out, err)
			}
			t.Fatalf("pod %s is %s\n%s%s%s", pod, phase, &said, kubectl(t, "describe", "pod", pod), driverState(t.Context()))
		}
	}
}
