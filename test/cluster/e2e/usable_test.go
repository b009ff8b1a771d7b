package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// library is a pod whose container has a distribution's RDMA libraries.
func library(t *testing.T, name, template string, image *rdmaimage.Image) string {
	t.Helper()
	root := t.TempDir()
	image.Make(t, root)
	return strings.NewReplacer(
		"  containers:\n", fmt.Sprintf("  volumes:\n  - {name: usr, hostPath: {path: %s/usr}}\n"+
			"  - {name: drivers, hostPath: {path: %[1]s/etc/libibverbs.d}}\n  containers:\n", root),
		"    resources:", "    volumeMounts:\n    - {name: usr, mountPath: /usr}\n"+
			"    - {name: drivers, mountPath: /etc/libibverbs.d}\n    resources:",
	).Replace(testbed.Pod(name, "resourceClaimTemplateName: "+template))
}

// TestUsable: an image without a provider for its HCA is named in an event of pod and claim, in the claim's status, by
// kubectl rdma why and in the metrics, before its job is slow. With onUnusable: fail it does not start, and starts with
// the provider.
func TestUsable(t *testing.T) {
	n := bed.Namespace(t)
	n.Unusable = true
	// The runtime of the test may not raise limits.
	const parameters = "{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlock: inherit, onUnusable: %s}"
	for _, word := range []string{"warn", "fail"} {
		n.Apply(testbed.Template(word, "hca.rdma.dev", fmt.Sprintf(parameters, word)))
	}
	without, with := rdmaimage.Debian("rxe"), rdmaimage.Debian("mlx5")
	n.Apply(library(t, "slow", "warn", without) + library(t, "well", "fail", with))
	n.Ready("slow", "well")
	const says = "libibverbs of the container cannot use HCAs of driver"
	n.Event("slow", "container app cannot use", says, "Remedy: install")
	for pod, status := range map[string]string{"slow": "False ProviderUnusable", "well": "True Checked"} {
		testbed.Eventually(t, "the condition of pod "+pod, func() error {
			out := n.Kubectl("get", "resourceclaim", n.ClaimOf(pod).Metadata.Name, "-o", "jsonpath="+
				`{range .status.devices[*].conditions[?(@.type=="Usable")]}{.status} {.reason}{end}`)
			if out != status {
				return fmt.Errorf("%q, want %q", out, status)
			}
			return nil
		})
	}
	if out := n.Kubectl("get", "events", "--field-selector", "involvedObject.name=well,reason=RDMANotUsable"); strings.Contains(out, "RDMA") {
		t.Errorf("a pod with the provider has the event: %s", out)
	}
	if answer := bed.Plugin(t).Why(t, n.Name, "slow"); answer.Verdict != "impaired" ||
		!strings.Contains(answer.Summary, says) {
		t.Errorf("kubectl rdma why says %s: %s", answer.Verdict, answer.Summary)
	}

	n.Apply(library(t, "stopped", "fail", without))
	n.Event("stopped", "rdma-hook: ", says)
	n.Delete("stopped")
}
