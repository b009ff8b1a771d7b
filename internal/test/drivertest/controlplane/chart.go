package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/checkout"
)

// ChartClasses returns the device classes of the chart. Helm is a Go template with
// more functions; the classes use few of them.
func ChartClasses(t testing.TB) []*resourceapi.DeviceClass {
	t.Helper()
	root, err := checkout.Root()
	must.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(root, "deployments/helm/dra-driver-rdma/templates/deviceclasses.yaml"))
	must.NoError(t, err)
	funcs := template.FuncMap{
		"include": func(name string, _ any) string {
			return map[string]string{
				"rdma.driver": "rdma.dev", "rdma.account": "system:serviceaccount:dra-driver-rdma:dra-driver-rdma",
			}[name]
		},
		"nindent": func(_ int, s string) string { return s },
	}
	parsed, err := template.New("classes").Funcs(funcs).Parse(string(source))
	must.NoError(t, err)
	var out strings.Builder
	values := map[string]any{"Values": map[string]any{"deviceClasses": map[string]any{"create": true, "extendedResourceName": ""}}}
	must.NoError(t, parsed.Execute(&out, values))
	var classes []*resourceapi.DeviceClass
	for document := range strings.SplitSeq(out.String(), "\n---\n") {
		class := &resourceapi.DeviceClass{}
		if err := yaml.UnmarshalStrict([]byte(document), class); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		classes = append(classes, class)
	}
	return classes
}
