package resources_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"
)

// chartClasses is where the chart defines the device classes.
const chartClasses = "../../../deployments/helm/dra-driver-rdma/templates/deviceclasses.yaml"

// classes reads the device classes from the chart. Helm is a Go template with
// more functions; the classes use few of them.
func classes(t testing.TB) classLister {
	t.Helper()
	source, err := os.ReadFile(chartClasses)
	if err != nil {
		t.Fatal(err)
	}
	funcs := template.FuncMap{
		"include": func(name string, _ any) string { return map[string]string{"rdma.driver": "rdma.dev"}[name] },
		"nindent": func(_ int, s string) string { return s },
	}
	parsed, err := template.New("classes").Funcs(funcs).Parse(string(source))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	values := map[string]any{"Values": map[string]any{"deviceClasses": map[string]any{"create": true}, "extendedResourceName": ""}}
	if err := parsed.Execute(&out, values); err != nil {
		t.Fatal(err)
	}
	var list classLister
	for document := range strings.SplitSeq(out.String(), "\n---\n") {
		class := &resourceapi.DeviceClass{}
		if err := yaml.UnmarshalStrict([]byte(document), class); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		list = append(list, class)
	}
	return list
}

type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range l {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

func exactly(class string, count int64, selectors ...string) *resourceapi.ExactDeviceRequest {
	return &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Selectors: cels(selectors),
	}
}

func cels(expressions []string) []resourceapi.DeviceSelector {
	var out []resourceapi.DeviceSelector
	for _, e := range expressions {
		out = append(out, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return out
}

func request(name string, exact *resourceapi.ExactDeviceRequest) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: exact}
}

// allocate runs the scheduler's allocator for one claim on a machine, without any
// optional feature but prioritized lists, as the oldest supported cluster does.
// It returns "request=device" for each result, nil if nothing fits.
func allocate(t *testing.T, machine string, devices resourceapi.DeviceClaim) []string {
	t.Helper()
	ctx := context.Background()
	published := objects(exclusive(snapshot(t, machine)))
	allocator, err := structured.NewAllocator(ctx, structured.Features{PrioritizedList: true}, structured.AllocatedState{},
		classes(t), published, cel.NewCache(10, cel.Features{}))
	if err != nil {
		t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: "1"}, Spec: resourceapi.ResourceClaimSpec{Devices: devices}}
	host := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	allocations, err := allocator.Allocate(ctx, host, []*resourceapi.ResourceClaim{claim})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range allocations {
		for _, r := range a.Devices.Results {
			got = append(got, r.Request+"="+r.Device)
		}
	}
	return got
}

// TestAllocate asks the scheduler's own allocator for devices, as claims would.
func TestAllocate(t *testing.T) {
	const rdma = `device.attributes["rdma.dev"]`
	pcieRoot := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot")
	for _, tc := range []struct {
		name, machine string
		claim         resourceapi.DeviceClaim
		want          []string
	}{
		{"a PF by class", "roce-sriov", claimOf(request("nic", exactly("hca.rdma.dev", 1))), []string{"nic=pci-0000-3b-00-1"}},
		{"a VF by class", "roce-sriov", claimOf(request("nic", exactly("vf.hca.rdma.dev", 1))), []string{"nic=pci-0000-3b-00-2"}},
		{"two VFs", "roce-sriov", claimOf(request("nic", exactly("vf.hca.rdma.dev", 2))), []string{"nic=pci-0000-3b-00-2", "nic=pci-0000-3b-00-3"}},
		{"more PFs than there are", "roce-sriov", claimOf(request("nic", exactly("hca.rdma.dev", 3))), nil},
		{"no VF on a host without", "hgx-h100", claimOf(request("nic", exactly("vf.hca.rdma.dev", 1))), nil},
		{"an SF counts as a VF", "mlx5-sf", claimOf(request("nic", exactly("vf.hca.rdma.dev", 1))), []string{"nic=pci-0000-c1-00-0-sf-88"}},
		{"soft-RoCE", "soft", claimOf(request("nic", exactly("hca.rdma.dev", 1))), []string{"nic=soft-rxe-dummy0"}},
		{"nothing is shared yet", "hgx-h100", claimOf(request("nic", exactly("shared.hca.rdma.dev", 1))), nil},
		{
			"by rate", "dgx-h100-ib",
			claimOf(request("nic", exactly("hca.rdma.dev", 1, rdma+`.?rateGbps.orValue(0) >= 400`, rdma+`.protocol == "ib"`))),
			[]string{"nic=pci-0000-18-00-0"},
		},
		{"by a rate nobody has", "dgx-h100-ib", claimOf(request("nic", exactly("hca.rdma.dev", 1, rdma+`.?rateGbps.orValue(0) >= 1600`))), nil},
		{"by interface", "hgx-h100", claimOf(request("nic", exactly("hca.rdma.dev", 1, rdma+`.?ibdev.orValue("") == "mlx5_4"`))), []string{"nic=pci-0000-52-00-0"}},
		{"EFA", "aws-p5", claimOf(request("nic", exactly("hca.rdma.dev", 1, rdma+`.protocol == "efa"`))), []string{"nic=pci-0000-4f-00-0"}},
		{
			"two below one PCIe root", "aws-p5",
			constrained(claimOf(request("a", exactly("hca.rdma.dev", 1)), request("b", exactly("hca.rdma.dev", 1, `device.attributes["resource.kubernetes.io"].pciBusID != "0000:50:00.0"`))),
				resourceapi.DeviceConstraint{MatchAttribute: &pcieRoot}),
			[]string{"a=pci-0000-4f-00-0", "b=pci-0000-51-00-0"},
		},
		{
			"two roots for one constraint", "hgx-h100",
			constrained(claimOf(request("a", exactly("hca.rdma.dev", 1, rdma+`.ibdev == "mlx5_0"`)), request("b", exactly("hca.rdma.dev", 1, rdma+`.ibdev == "mlx5_2"`))),
				resourceapi.DeviceConstraint{MatchAttribute: &pcieRoot}),
			nil,
		},
		{"first available, preferred", "roce-sriov", claimOf(firstAvailable("vf.hca.rdma.dev", "hca.rdma.dev")), []string{"nic/s0=pci-0000-3b-00-2"}},
		{"first available, fallback", "hgx-h100", claimOf(firstAvailable("vf.hca.rdma.dev", "hca.rdma.dev")), []string{"nic/s1=pci-0000-19-00-0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := allocate(t, tc.machine, tc.claim); !slices.Equal(got, tc.want) {
				t.Errorf("allocated %v, want %v", got, tc.want)
			}
		})
	}
}

func claimOf(requests ...resourceapi.DeviceRequest) resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: requests}
}

func constrained(c resourceapi.DeviceClaim, constraint resourceapi.DeviceConstraint) resourceapi.DeviceClaim {
	c.Constraints = []resourceapi.DeviceConstraint{constraint}
	return c
}

func firstAvailable(classes ...string) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: "nic"}
	for i, class := range classes {
		r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprintf("s%d", i), DeviceClassName: class,
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		})
	}
	return r
}
