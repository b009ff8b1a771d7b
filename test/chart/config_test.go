package chart

import (
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	drapolicy "github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// configuration returns the ConfigMap with the driver's configuration.
func configuration(t *testing.T, args ...string) *corev1.ConfigMap {
	t.Helper()
	for _, m := range all[*corev1.ConfigMap](t, args...) {
		if m.Data["config.yaml"] != "" {
			return m
		}
	}
	t.Fatal("there is no configuration")
	return nil
}

// TestConfig: the value config reaches the driver as its file, in a directory that
// follows the ConfigMap.
func TestConfig(t *testing.T) {
	for _, values := range []string{
		"testdata/default.values.yaml", "testdata/full.values.yaml", "testdata/least.values.yaml",
		"../../examples/rails-gpu/values.yaml",
	} {
		args := []string{"--values", values}
		content := configuration(t, args...)
		_, err := drapolicy.Parse([]byte(content.Data["config.yaml"]))
		test.NoError(t, err,
			test.Sprintf("%s: the driver does not read its configuration\n%s", values, content.Data["config.yaml"]))
		set := daemonSet(t, args...)
		var volume string
		for _, v := range set.Spec.Template.Spec.Volumes {
			if v.ConfigMap != nil && v.ConfigMap.Name == content.Name {
				volume = v.Name
			}
		}
		for _, m := range driver(t, set).VolumeMounts {
			if m.Name == volume && (m.MountPath != "/etc/rdma.dev" || m.SubPath != "" || !m.ReadOnly) {
				t.Errorf("%s: configuration is mounted by %v, want the whole directory", values, m)
			}
		}
		// A change must not restart the drivers.
		other := daemonSet(t, append(slices.Clone(args), "--set", "config.memlock=3Gi")...)
		test.Eq(t, set.Spec.Template, other.Spec.Template,
			test.Sprintf("%s: another configuration changes the pods", values))
	}
}

// TestExtraClasses: the classes of a site select devices of this driver only, carry
// parameters that it reads, and those that open the fabric say so.
func TestExtraClasses(t *testing.T) {
	found := map[string]*resourceapi.DeviceClass{}
	for _, class := range all[*resourceapi.DeviceClass](t, "--values", "testdata/full.values.yaml") {
		found[class.Name] = class
	}
	group, fabric := found["all.hca.example.com"], found["fabric.hca.example.com"]
	if group == nil || fabric == nil {
		t.Fatalf("classes are %v", found)
	}
	if *group.Spec.ExtendedResourceName != "rdma/hca_1" || fabric.Spec.ExtendedResourceName != nil {
		t.Errorf("extended resources are %v and %v", group.Spec.ExtendedResourceName, fabric.Spec.ExtendedResourceName)
	}
	if group.Labels["rdma.dev/privileged"] != "" || fabric.Labels["rdma.dev/privileged"] != "true" {
		t.Errorf("labels are %v and %v, want privileged on the second alone", group.Labels, fabric.Labels)
	}
	for _, class := range []*resourceapi.DeviceClass{group, fabric} {
		config, err := v1alpha1.Decode(class.Spec.Config[0].Opaque.Parameters.Raw)
		if err != nil || class.Spec.Config[0].Opaque.Driver != "rdma.dev" {
			t.Errorf("%s: parameters for %s: %v", class.Name, class.Spec.Config[0].Opaque.Driver, err)
		} else if _, ok := config.(*v1alpha1.HCAClassConfig); !ok {
			t.Errorf("%s: parameters are a %T", class.Name, config)
		}
	}
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"group": {StringValue: new("all")}, "function": {StringValue: new("pf")}, "protocol": {StringValue: new("roce")},
	}
	for _, tc := range []struct {
		class  *resourceapi.DeviceClass
		driver string
		want   bool
	}{
		{group, "rdma.dev", true},
		{group, "gpu.example.com", false},
		{fabric, "rdma.dev", false},
	} {
		test.Eq(t, tc.want, selects(t, tc.class, cel.Device{Driver: tc.driver, Attributes: attributes}),
			test.Sprintf("%s selects a device of %s", tc.class.Name, tc.driver))
	}
}

// selects reports whether all selectors of a class match a device.
func selects(t *testing.T, class *resourceapi.DeviceClass, device cel.Device) bool {
	t.Helper()
	for _, s := range class.Spec.Selectors {
		compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(s.CEL.Expression, cel.Options{})
		must.Nil(t, compiled.Error, must.Sprintf("class %s: %v", class.Name, compiled.Error))
		matches, _, err := compiled.DeviceMatches(t.Context(), device)
		must.NoError(t, err, must.Sprintf("class %s", class.Name))
		if !matches {
			return false
		}
	}
	return true
}
