package chart

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// classes returns the chart's DeviceClasses, each with its compiled selector. The
// selectors must compile without any optional feature of the cluster.
func classes(t *testing.T) map[string]cel.CompilationResult {
	t.Helper()
	compiled := map[string]cel.CompilationResult{}
	for _, class := range all[*resourceapi.DeviceClass](t) {
		if len(class.Spec.Selectors) != 1 || class.Spec.Config != nil {
			t.Fatalf("class %s has %d selectors, and configuration %v", class.Name, len(class.Spec.Selectors), class.Spec.Config)
		}
		result := cel.GetCompiler(cel.Features{}).CompileCELExpression(class.Spec.Selectors[0].CEL.Expression, cel.Options{})
		must.Nil(t, result.Error, must.Sprintf("class %s: %v", class.Name, result.Error))
		compiled[class.Name] = result
	}
	return compiled
}

// matching lists the classes that select a device.
func matching(t *testing.T, classes map[string]cel.CompilationResult, device cel.Device) []string {
	t.Helper()
	var names []string
	for _, name := range []string{"hca.rdma.dev", "vf.hca.rdma.dev", "shared.hca.rdma.dev"} {
		matches, _, err := classes[name].DeviceMatches(t.Context(), device)
		test.NoError(t, err, test.Sprintf("class %s", name))
		if matches {
			names = append(names, name)
		}
	}
	return names
}

// TestClassesOfFixtures: each device of each fixture machine is in one class, by its
// function.
func TestClassesOfFixtures(t *testing.T) {
	want := map[rdma.Function]string{
		rdma.PF: "hca.rdma.dev", rdma.Virtual: "hca.rdma.dev",
		rdma.VF: "vf.hca.rdma.dev", rdma.SF: "vf.hca.rdma.dev",
	}
	compiled := classes(t)
	seen := map[rdma.Function]bool{}
	for _, name := range fixture.Names() {
		snap := rdmatest.Snapshot(t, name)
		for _, h := range snap.Usable() {
			seen[h.Function] = true
			device := cel.Device{Driver: rdma.Domain, Attributes: resources.Attributes(h, snap.NetnsMode)}
			test.Eq(t, []string{want[h.Function]}, matching(t, compiled, device),
				test.Sprintf("%s: %s, a %s", name, h.IBDev, h.Function))
		}
	}
	for function := range want {
		test.True(t, seen[function], test.Sprintf("no fixture machine has a %s", function))
	}
}

// TestClassesOfOthers: shared devices, other drivers' devices, and devices that lack
// the attributes.
func TestClassesOfOthers(t *testing.T) {
	type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	compiled := classes(t)
	pf := resourceapi.DeviceAttribute{StringValue: new("pf")}
	vf := resourceapi.DeviceAttribute{StringValue: new("vf")}
	yes, no := resourceapi.DeviceAttribute{BoolValue: new(true)}, resourceapi.DeviceAttribute{BoolValue: new(false)}
	for name, tc := range map[string]struct {
		device cel.Device
		want   []string
	}{
		"shared PF":        {cel.Device{Driver: rdma.Domain, Attributes: attributes{"function": pf, "shared": yes}}, []string{"shared.hca.rdma.dev"}},
		"shared VF":        {cel.Device{Driver: rdma.Domain, Attributes: attributes{"function": vf, "shared": yes}}, []string{"shared.hca.rdma.dev"}},
		"PF":               {cel.Device{Driver: rdma.Domain, Attributes: attributes{"function": pf, "shared": no}}, []string{"hca.rdma.dev"}},
		"PF, shared unset": {cel.Device{Driver: rdma.Domain, Attributes: attributes{"function": pf}}, []string{"hca.rdma.dev"}},
		"group":            {cel.Device{Driver: rdma.Domain, Attributes: attributes{"group": {StringValue: new("all")}, "shared": yes}}, nil},
		"no attributes":    {cel.Device{Driver: rdma.Domain}, nil},
		"another driver":   {cel.Device{Driver: "gpu.example.com", Attributes: attributes{"rdma.dev/function": pf, "rdma.dev/shared": yes}}, nil},
		"no domain at all": {cel.Device{Driver: "gpu.example.com"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.Eq(t, tc.want, matching(t, compiled, tc.device), test.Sprint("classes"))
		})
	}
}
