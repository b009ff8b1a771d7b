package chart

import (
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

const manifests = "../../deployments/manifests/dra-driver-rdma.yaml"

// manifestsHead comes before what the chart renders, for those who do not use helm.
const manifestsHead = `# The chart deployments/helm/dra-driver-rdma with its default values, for kubectl apply.
# Made by go test ./test/chart -update.
apiVersion: v1
kind: Namespace
metadata:
  name: dra-driver-rdma
  labels:
    pod-security.kubernetes.io/enforce: privileged
`

// TestManifests: the plain manifests are what the chart renders, without what helm alone
// runs. A real API server takes them in test/cluster/policies.
func TestManifests(t *testing.T) {
	out, err := helm(t, "template", "dra-driver-rdma", chartDir, "--namespace", "dra-driver-rdma", "--kube-version", oldest, "--no-hooks")
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, out)
	}
	out = strings.ReplaceAll(out, "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
	golden.File(t, manifests, []byte(manifestsHead+out))
	for _, obj := range objects(t, readFile(t, manifests)) {
		if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind == "" {
			t.Errorf("an object has no kind: %v", obj)
		}
	}
}
