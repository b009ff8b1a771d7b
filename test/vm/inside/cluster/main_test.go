// Package cluster holds tests that run inside the virtual machine, the node of a control
// plane on the host: the driver, from its image and chart, on a real RDMA kernel, with real
// traffic between containers.
package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/joined"
)

// patience is for emulated time.
const patience = 25 * time.Minute

// kube is the node, with the driver on it.
var kube *cluster.Cluster

func TestMain(m *testing.M) { joined.Main(m, setUp) }

func setUp(ctx context.Context) (err error) {
	if kube, err = joined.Up(ctx, nil); err != nil {
		return err
	}
	if _, err := kube.Output(ctx, "kubectl", "wait", "--for=create", "resourceslice", "--field-selector", "spec.driver=rdma.dev", "--timeout=10m"); err != nil {
		return fmt.Errorf("%w\n%s", err, joined.Said(ctx, kube))
	}
	_, err = kube.Output(ctx, "kubectl", "wait", "--for=create", "serviceaccount/default", "--timeout=10m")
	return err
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
	must.NoError(t, err)
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
// they said. It asks without kubectl, which takes seconds of the emulated machine to start.
func succeeds(t *testing.T, pod string, containers ...string) {
	t.Helper()
	pods := api(t).CoreV1().Pods("default")
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		phase := corev1.PodUnknown // the API server may not answer at once
		if p, err := pods.Get(t.Context(), pod, metav1.GetOptions{}); err == nil {
			phase = p.Status.Phase
		}
		if phase == corev1.PodSucceeded {
			return
		}
		if phase == corev1.PodFailed || time.Now().After(deadline) {
			var said strings.Builder
			for _, c := range containers {
				out, err := kube.Output(t.Context(), "kubectl", "logs", pod, "-c", c)
				fmt.Fprintln(&said, c, "said:", out, err)
			}
			t.Fatalf("pod %s is %s\n%s%s%s", pod, phase, &said, kubectl(t, "describe", "pod", pod), joined.Said(t.Context(), kube))
		}
	}
}
