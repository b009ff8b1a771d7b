package policies

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
	"github.com/rdma-dev/dra-driver-rdma/test/docs"
)

// elsewhere are what documents show that is in no API server of Kubernetes itself.
var elsewhere = map[string]string{
	"DriverConfig":               "a file of the driver: pkg/dra/policy",
	"HostConfig":                 "a file of cdi-gen: internal/hostconfig",
	"LinkTable":                  "a file of the driver and of kubectl rdma: cmd/dra-driver reads the one of the page",
	"Topology":                   "of Kueue",
	"JobSet":                     "of JobSet: test/docs has its fields",
	"MPIJob":                     "of the MPI operator: test/docs has its fields",
	"SecurityContextConstraints": "of OpenShift",
	"Application":                "of Argo CD: test/chart renders the chart with its values",
}

// manifest is an object of a document or an example.
type manifest struct {
	source    string
	text      string
	kind      string
	namespace string
}

// A real API server with the chart's policies takes every manifest in the
// documents and among the examples as it stands. What the examples do, test/cluster/e2e proves.
func (s *server) documents(t *testing.T) {
	out, err := s.run(t, testbed.NetworkAttachmentDefinitions, "create", "-f", "-")
	must.NoError(t, err, must.Sprintf("create the resource of Multus: %s", out))
	s.must(t, "wait", "--for=condition=Established", "--timeout=1m", "crd/network-attachment-definitions.k8s.cni.cncf.io")
	manifests := documented(t)
	if len(manifests) < 30 {
		t.Fatalf("%d manifests are found", len(manifests))
	}
	there := []string{"default", "kube-system", deploy.Namespace}
	namespaces := []string{"default"}
	for _, m := range manifests {
		if m.namespace != "" && !slices.Contains(namespaces, m.namespace) {
			namespaces = append(namespaces, m.namespace)
		}
	}
	for _, name := range namespaces {
		if !slices.Contains(there, name) {
			s.must(t, "create", "namespace", name)
		}
		s.must(t, "--namespace", name, "create", "serviceaccount", "default") // there is no controller manager to make it
	}
	// As examples/monitoring.yaml says.
	s.must(t, "label", "namespace", "default", "resource.kubernetes.io/admin-access=true")
	for _, m := range manifests {
		verb := "create"
		if m.kind == "Namespace" {
			verb = "apply" // it is there, for what is in it
		}
		out, err := s.run(t, m.text, verb, "--dry-run=server", "--validate=strict", "-f", "-")
		test.NoError(t, err, test.Sprintf("%s: %s\n%s", m.source, out, m.text))
	}
}

func (s *server) must(t *testing.T, args ...string) {
	t.Helper()
	out, err := s.run(t, "", args...)
	must.NoError(t, err, must.Sprintf("kubectl %s: %s", strings.Join(args, " "), out))
}

// documented lists the manifests of all documents and examples.
func documented(t *testing.T) []manifest {
	t.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	files, err := docs.Files(string(checkout))
	must.NoError(t, err)
	var all []manifest
	for _, file := range files {
		page, err := docs.Read(file)
		must.NoError(t, err)
		for _, block := range page.Blocks {
			if block.Language == "yaml" && strings.Contains("\n"+block.Text, "\napiVersion:") {
				all = append(all, split(t, file, block.Text)...)
			}
		}
	}
	examples, err := filepath.Glob(checkout.Path("examples", "*.yaml"))
	must.NoError(t, err)
	jobs, err := filepath.Glob(checkout.Path("examples", "jobs", "*.yaml"))
	must.NoError(t, err)
	rails, err := filepath.Glob(checkout.Path("examples", "rails-gpu", "*.yaml"))
	must.NoError(t, err)
	for _, file := range slices.Concat(examples, jobs, rails) {
		all = append(all, split(t, file, testbed.ReadFile(t, file))...)
	}
	return all
}

// split separates the objects of a text, and leaves out those that are elsewhere.
func split(t *testing.T, source, text string) []manifest {
	t.Helper()
	var found []manifest
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		object, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		var meta metav1.PartialObjectMetadata
		if err == nil {
			err = utilyaml.Unmarshal(object, &meta)
		}
		must.NoError(t, err, must.Sprintf("%s\n%s", source, text))
		if meta.Kind != "" && elsewhere[meta.Kind] == "" {
			found = append(found, manifest{source, string(object), meta.Kind, meta.Namespace})
		}
	}
}
