package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/test/docs"
)

const manifests = "../../deployments/manifests/dra-driver-rdma.yaml"

// manifestsHead comes before what the chart renders, for those who do not use helm.
const manifestsHead = `# The chart deployments/helm/dra-driver-rdma with its default values, for kubectl apply.
# Made by go test ./test/chart -update.
%s
apiVersion: v1
kind: Namespace
metadata:
  name: dra-driver-rdma
  labels:
    pod-security.kubernetes.io/enforce: privileged
`

// publication says whether anybody can pull the image that the manifests name.
func publication(t *testing.T) string {
	t.Helper()
	p, err := docs.ReadPublication("../..")
	must.NoError(t, err)
	if p.Published {
		return p.Sentence()
	}
	return p.Sentence() + "\n# Put your own image into the DaemonSet (docs/install.md#build-your-own)."
}

// TestManifests: the plain manifests are what the chart renders, without what helm alone
// runs. A real API server takes them in test/cluster/policies.
func TestManifests(t *testing.T) {
	out, err := helm(t, "template", "dra-driver-rdma", chartDir, "--namespace", "dra-driver-rdma",
		"--kube-version", oldest, "--no-hooks")
	must.NoError(t, err, must.Sprintf("helm template: %v\n%s", err, out))
	out = strings.ReplaceAll(out, "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
	golden.File(t, manifests, []byte(fmt.Sprintf(manifestsHead, "# "+publication(t))+out))
	for _, obj := range objects(t, readFile(t, manifests)) {
		test.NotEq(t, "", obj.GetObjectKind().GroupVersionKind().Kind,
			test.Sprintf("an object has no kind: %v", obj))
	}
}

// renderNotes returns the notes. Helm renders notes only with a cluster, so a copy of the chart has them in a
// ConfigMap.
func renderNotes(t *testing.T, flags ...string) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "dra-driver-rdma")
	must.NoError(t, os.CopyFS(chart, os.DirFS(chartDir)))
	for name, text := range map[string]string{
		"notes.txt": readFile(t, chartDir+"/templates/NOTES.txt"),
		"templates/notes.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata:\n  notes: |\n" +
			"    {{- tpl (.Files.Get \"notes.txt\") . | nindent 4 }}\n",
	} {
		must.NoError(t, os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600))
	}
	args := []string{"template", "dra-driver-rdma", chart, "--show-only", "templates/notes.yaml"}
	out, err := helm(t, append(args, flags...)...)
	must.NoError(t, err, must.Sprintf("helm template: %v\n%s", err, out))
	return out
}

// TestNotesNameGates: the notes name the gates that a release has off, as the table of gates has it.
func TestNotesNameGates(t *testing.T) {
	for minor := 34; minor <= 37; minor++ {
		notes := renderNotes(t, "--kube-version", fmt.Sprintf("1.%d.0", minor),
			"--set", "deviceClasses.extendedResourceName=rdma/hca")
		for _, gate := range []string{
			featuregate.ConsumableCapacity, featuregate.PartitionableDevices, featuregate.DeviceTaints,
			featuregate.ExtendedResource,
		} {
			test.Eq(t, !featuregate.On(gate, minor), strings.Contains(notes, gate),
				test.Sprintf("%s in 1.%d: %s", gate, minor, notes))
		}
	}
}

// TestNotesWarnOfTheImage: whoever installs the chart with an image that nobody can pull reads so at once.
func TestNotesWarnOfTheImage(t *testing.T) {
	sentence := strings.TrimPrefix(strings.SplitN(publication(t), "\n", 2)[0], "# ")
	unpublished := strings.Contains(sentence, "not published yet")
	for set, own := range map[string]bool{"logVerbosity=2": false, "image.repository=registry.example.com/x": true} {
		out := renderNotes(t, "--kube-version", oldest, "--set", set)
		if got, want := strings.Contains(out, "WARNING: "+sentence), unpublished && !own; got != want {
			t.Errorf("with %s the notes warn of the image: %v, want %v\n%s", set, got, want, out)
		}
	}
}
