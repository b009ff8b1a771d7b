package why

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestIsExtended: the names are those of TestIsExtendedResourceName in pkg/apis/core/v1/helper of Kubernetes, and a
// class's own.
func TestIsExtended(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"pod.alpha.kubernetes.io/opaque-int-resource-foo": false,
		"kubernetes.io/resource-foo":                      false, "foo": false, "a/b": true,
		"requests.foo/bar": false, "mykubernetes.io/foo": false, "rdma/hca": true, "9a/b c": false,
		"deviceclass.resource.kubernetes.io/hca.rdma.dev": true,
	} {
		if isExtended(name) != want {
			t.Errorf("%s is an extended resource: %t, want %t", name, !want, want)
		}
	}
}
