package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
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

// workload is a Deployment with the pod of library.
func workload(t *testing.T, name, claim string, image *rdmaimage.Image) string {
	t.Helper()
	_, spec, found := strings.Cut(library(t, name, claim, image), "spec:\n")
	if !found {
		t.Fatal("the pod has no spec")
	}
	spec = strings.ReplaceAll(strings.TrimSuffix(spec, "---"), "\n", "\n    ")
	spec = strings.Replace(spec, "resourceClaimTemplateName", "resourceClaimName", 1)
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
    %s
---`, name, spec)
}

// sharedClaim is one that all pods of a Deployment share.
const sharedClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: hca.rdma.dev}}]}}
---`

// TestUsableWorkload: all pods of a Deployment have one image, so its fault is one event that counts, for the first pod
// and for the claim, and not one for each pod.
func TestUsableWorkload(t *testing.T) {
	pods := 8
	if needs.IsLong() {
		pods = 200
	}
	n := bed.Namespace(t)
	n.Unusable = true
	n.Apply(sharedClaim + workload(t, "many", "shared", rdmaimage.Debian("rxe")))
	type event struct {
		InvolvedObject struct{ Kind, Name string }
		Count          int
	}
	events := func() (found []event) {
		var list struct{ Items []event }
		out := n.Kubectl("get", "events", "--field-selector=reason=RDMANotUsable", "-o", "json")
		must.NoError(t, json.Unmarshal([]byte(out), &list))
		return list.Items
	}
	count := func(kind string) (objects, count int) {
		for _, e := range events() {
			if e.InvolvedObject.Kind == kind {
				objects++
				count += e.Count
			}
		}
		return objects, count
	}
	kinds := []string{"Pod", "ResourceClaim"}
	for _, kind := range kinds {
		testbed.Eventually(t, "the event of the first "+kind, func() error {
			if objects, _ := count(kind); objects == 0 {
				return errors.New("none yet")
			}
			return nil
		})
	}
	n.Kubectl("scale", "deployment", "many", fmt.Sprint("--replicas=", pods))
	n.Kubectl("rollout", "status", "deployment", "many", fmt.Sprint("--timeout=", 3+pods/10, "m"))
	// Pods that start at the same moment are one event, so it counts at least the first one and those after it.
	for _, kind := range kinds {
		testbed.Eventually(t, "the count of the event of the "+kind, func() error {
			if objects, times := count(kind); times < 2 {
				return fmt.Errorf("%d events count %d", objects, times)
			}
			return nil
		})
		if objects, times := count(kind); objects != 1 {
			t.Errorf("%d pods made %d events of a %s, which count %d: %v", pods, objects, kind, times, events())
		}
	}
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
	if answer := bed.Plugin().Why(t, n.Name, "slow"); answer.Verdict != "impaired" ||
		!strings.Contains(answer.Summary, says) {
		t.Errorf("kubectl rdma why says %s: %s", answer.Verdict, answer.Summary)
	}

	n.Apply(library(t, "stopped", "fail", without))
	n.Event("stopped", "rdma-hook: ", says)
	n.Delete("stopped")
}
