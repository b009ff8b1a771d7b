package v1alpha1_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestDocumentedExamples reads every manifest in docs/claims.md as the API server
// and the driver would: strictly.
func TestDocumentedExamples(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/claims.md")
	must.NoError(t, err)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, resourceapi.AddToScheme} {
		must.NoError(t, add(scheme))
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	kinds := map[string]int{}
	for _, block := range yamlBlock.FindAllStringSubmatch(string(doc), -1) {
		obj, _, err := decoder.Decode([]byte(block[1]), nil, nil)
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
			continue
		}
		for _, raw := range parameters(obj) {
			config, err := v1alpha1.Decode(raw)
			if err != nil {
				t.Errorf("%v in\n%s", err, block[1])
				continue
			}
			kinds[fmt.Sprintf("%T", config)]++
		}
	}
	test.True(t, kinds["*v1alpha1.HCAConfig"] != 0 && kinds["*v1alpha1.HCAClassConfig"] != 0,
		test.Sprintf("the examples have %v, want both kinds", kinds))
}

// parameters returns the opaque parameters in an object.
func parameters(obj runtime.Object) [][]byte {
	var out [][]byte
	switch o := obj.(type) {
	case *resourceapi.ResourceClaimTemplate:
		for _, c := range o.Spec.Spec.Devices.Config {
			out = append(out, c.Opaque.Parameters.Raw)
		}
	case *resourceapi.DeviceClass:
		for _, c := range o.Spec.Config {
			out = append(out, c.Opaque.Parameters.Raw)
		}
	}
	return out
}
