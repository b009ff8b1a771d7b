package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	drapolicy "github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/test/docs"
)

const (
	securityDoc  = "../../docs/security.md"
	installDoc   = "../../docs/install.md"
	migrationDoc = "../../docs/migration.md"
	hookDoc      = "../../docs/hook.md"
	metricsDoc   = "../../docs/metrics.md"
	operateDoc   = "../../docs/operate.md"
)

// TestSecurityDoc: the document names every policy, every directory of the host and
// every resource that the driver may touch.
func TestSecurityDoc(t *testing.T) {
	doc := readFile(t, securityDoc)
	var words []string
	for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](t) {
		words = append(words, p.Name)
	}
	// The values' own names stand for the directories.
	paths := []string{"hostPaths.kubelet", "hostPaths.cdi", "hostPaths.hook", "hostPaths.deviceInfo"}
	for i, value := range paths {
		paths[i] = value + "=/" + value
	}
	for _, m := range mounts(t, daemonSet(t, "--set", strings.Join(paths, ","))) {
		words = append(words, "`"+strings.TrimPrefix(strings.Replace(m.Host, "/hostPaths.kubelet", "hostPaths.kubelet", 1), "/")+"`")
	}
	for _, right := range granted(t) {
		resource, _, _ := strings.Cut(strings.Fields(right)[2], ".")
		words = append(words, resource)
	}
	for _, word := range words {
		test.StrContains(t, strings.ReplaceAll(doc, "`/", "`"), word, test.Sprint("docs/security.md says nothing"))
	}
}

// otherPrograms begins a block that is neither a manifest nor the chart's values.
var otherPrograms = regexp.MustCompile(
	`^(scrape_configs:|apiServer:|featureGates:|# /etc/rancher/|apiVersion: rdma\.dev/)`)

// TestExamplesInDocs: manifests in the documents are valid, with their parameters,
// and so are values of the chart.
func TestExamplesInDocs(t *testing.T) {
	platforms, err := filepath.Glob("../../docs/platforms/*.md")
	if err != nil || len(platforms) == 0 {
		t.Fatalf("documents of platforms: %v, %v", platforms, err)
	}
	for _, path := range append(platforms, securityDoc, installDoc, migrationDoc, hookDoc, metricsDoc, operateDoc) {
		page, err := docs.Read(path)
		must.NoError(t, err)
		for _, block := range page.Blocks {
			manifests := block.Text
			if block.Language != "yaml" || otherPrograms.MatchString(manifests) {
				continue // test/monitoring has the first of these
			}
			if strings.HasPrefix(manifests, "apiVersion: argoproj.io/") {
				manifests = valuesOfApplication(t, manifests)
			}
			if !strings.HasPrefix(manifests, "apiVersion:") {
				values := filepath.Join(t.TempDir(), "values.yaml")
				must.NoError(t, os.WriteFile(values, []byte(manifests), 0o600))
				manifests = render(t, "--values", values)
				_, err := drapolicy.Parse([]byte(configuration(t, "--values", values).Data["config.yaml"]))
				test.NoError(t, err, test.Sprint(path))
			}
			for _, obj := range objects(t, manifests) {
				class, ok := obj.(*resourceapi.DeviceClass)
				if !ok {
					continue
				}
				for _, config := range class.Spec.Config {
					_, err := v1alpha1.Decode(config.Opaque.Parameters.Raw)
					test.NoError(t, err, test.Sprintf("%s: DeviceClass %s", path, class.Name))
				}
			}
		}
	}
}

// TestValuesInDocs: each value that the installation guide sets or names exists.
func TestValuesInDocs(t *testing.T) {
	known := map[string]bool{}
	for _, v := range documentedValues(t) {
		known[v.path] = true
	}
	for _, path := range []string{securityDoc, installDoc, metricsDoc} {
		for _, pattern := range []string{
			`--set ([A-Za-z.]+)=`, "`((?:deviceClasses|image|metrics)\\.[A-Za-z]+)[`=]",
			"(?m)^\\| [^|]+ \\| `([a-z]+[A-Z][A-Za-z]*)[`=]",
		} {
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(readFile(t, path), -1) {
				test.True(t, known[m[1]],
					test.Sprintf("%s names the value %s, which the chart does not have", path, m[1]))
			}
		}
	}
}

// valuesOfApplication are the values that an Application of Argo CD gives the chart.
func valuesOfApplication(t *testing.T, manifest string) string {
	t.Helper()
	var application struct {
		Spec struct {
			Source struct {
				Path string
				Helm struct{ ValuesObject map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(manifest), &application); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	source := application.Spec.Source
	if _, err := os.Stat(filepath.Join("../..", source.Path, "Chart.yaml")); err != nil || len(source.Helm.ValuesObject) == 0 {
		t.Fatalf("the Application has the chart %q and the values %v: %v", source.Path, source.Helm.ValuesObject, err)
	}
	values, err := yaml.Marshal(source.Helm.ValuesObject)
	must.NoError(t, err)
	return string(values)
}
