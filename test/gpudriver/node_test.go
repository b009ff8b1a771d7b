package main

import (
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// node is a node with GPUs and HCAs, and what of them is taken.
type node struct {
	t          *testing.T
	gpus, hcas []resourceapi.Device
	taken      sets.Set[structured.DeviceID]
	features   structured.Features
}

func newNode(t *testing.T, machine string) *node {
	t.Helper()
	sys, snap := rdmatest.Sysfs(t, machine)
	n := &node{t: t, gpus: slices(topology.Discover(sys, snap))[0].Devices, features: oldest}
	for _, h := range snap.Usable() {
		n.addHCA(h.Name, h)
	}
	return n
}

func (n *node) addGPU(d *topology.Device) {
	n.gpus = append(n.gpus, resourceapi.Device{Name: deviceName(d.Address), Attributes: attributes(d)})
}

func (n *node) addHCA(name string, h *rdma.HCA) {
	n.hcas = append(n.hcas, resourceapi.Device{Name: name, Attributes: resources.Attributes(h, "")})
}

// take takes all HCAs that have an attribute in common with a GPU.
func (n *node) take(gpu string, by resourceapi.QualifiedName) {
	if n.taken == nil {
		n.taken = sets.New[structured.DeviceID]()
	}
	for _, g := range n.gpus {
		if *g.Attributes["name"].StringValue != gpu {
			continue
		}
		for _, h := range n.hcas {
			if value(h, by) == value(g, by) {
				n.taken.Insert(structured.MakeDeviceID("rdma.dev", "node", h.Name))
			}
		}
	}
}

// value is a string attribute under its full name, "" if there is none.
func value(d resourceapi.Device, name resourceapi.QualifiedName) string {
	for _, n := range []resourceapi.QualifiedName{name, resourceapi.QualifiedName(strings.TrimPrefix(string(name), "rdma.dev/"))} {
		if a, ok := d.Attributes[n]; ok && a.StringValue != nil {
			return *a.StringValue
		}
	}
	return ""
}

// exhaust allocates a claim again and again until it finds nothing. A claim has GPUs
// and as many HCAs, in pairs; aligned counts those that have the attribute in common.
func (n *node) exhaust(claim *resourceapi.ResourceClaim, by resourceapi.QualifiedName) (claims, aligned, pairs int) {
	n.t.Helper()
	for {
		results := n.allocate(claim)
		if results == nil {
			return claims, aligned, pairs
		}
		claims++
		of := map[string]map[string]string{"gpu.example.com": {}, "rdma.dev": {}}
		for _, r := range results {
			request, _, _ := strings.Cut(r.Request, "/")
			of[r.Driver][request[3:]] = value(n.device(r), by)
		}
		for number, gpu := range of["gpu.example.com"] {
			pairs++
			if gpu != "" && gpu == of["rdma.dev"][number] {
				aligned++
			}
		}
	}
}

func (n *node) device(r resourceapi.DeviceRequestAllocationResult) resourceapi.Device {
	for _, d := range append(n.gpus[:len(n.gpus):len(n.gpus)], n.hcas...) {
		if d.Name == r.Device && (r.Driver == driverName) == (d.Attributes["name"].StringValue != nil) {
			return d
		}
	}
	n.t.Fatalf("allocated an unknown device %s of %s", r.Device, r.Driver)
	return resourceapi.Device{}
}

// oldest are the features that are on in the oldest supported Kubernetes.
var oldest = structured.Features{PrioritizedList: true}

// allocate runs the scheduler's allocator and takes what it finds.
func (n *node) allocate(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	n.t.Helper()
	found, err := n.find(claim)
	must.NoError(n.t, err)
	for _, r := range found {
		n.taken.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
	}
	return found
}

// find runs the scheduler's allocator.
func (n *node) find(claim *resourceapi.ResourceClaim) ([]resourceapi.DeviceRequestAllocationResult, error) {
	n.t.Helper()
	if n.taken == nil {
		n.taken = sets.New[structured.DeviceID]()
	}
	allocator, err := structured.NewAllocator(n.t.Context(), n.features,
		structured.AllocatedState{AllocatedDevices: n.taken}, classes{}, n.published(), cel.NewCache(10, cel.Features{}))
	must.NoError(n.t, err)
	found, err := allocator.Allocate(n.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, []*resourceapi.ResourceClaim{claim})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0].Devices.Results, nil
}

func (n *node) published() []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for driver, devices := range map[string][]resourceapi.Device{driverName: n.gpus, "rdma.dev": n.hcas} {
		name := "node"
		out = append(out, &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: &name, Devices: devices,
				Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
			},
		})
	}
	return out
}

// classes are those of the examples.
type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	expression, ok := map[string]string{
		"gpu.example.com":      `device.driver == "gpu.example.com"`,
		"gpu.nvidia.com":       `device.driver == "gpu.example.com"`,
		"hca.rdma.dev":         `device.driver == "rdma.dev"`,
		"card.hca.example.com": `device.driver == "rdma.dev" && device.attributes["rdma.dev"].?group.orValue("").startsWith("card-")`,
		"rail.hca.example.com": `device.driver == "rdma.dev" && device.attributes["rdma.dev"].?rail.orValue(-1) >= 0`,
	}[name]
	if !ok {
		return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
	}
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}},
	}, nil
}

// exampleClaim is the claim that the first document of an example is the template
// of.
func exampleClaim(t *testing.T, name string) *resourceapi.ResourceClaim {
	t.Helper()
	data, err := os.ReadFile("../../examples/" + name + ".yaml")
	must.NoError(t, err)
	first, _, _ := strings.Cut(string(data), "\n---\n")
	var template resourceapi.ResourceClaimTemplate
	must.NoError(t, yaml.UnmarshalStrict([]byte(first), &template))
	return claimOf(template.Spec.Spec)
}

// documentedClaim is the first claim of docs/alignment.md whose text has the given words.
func documentedClaim(t *testing.T, words string) *resourceapi.ResourceClaim {
	t.Helper()
	data, err := os.ReadFile("../../docs/alignment.md")
	must.NoError(t, err)
	for block := range strings.SplitSeq(string(data), "```") {
		if text, ok := strings.CutPrefix(block, "yaml\n"); ok && strings.Contains(text, words) {
			var claim resourceapi.ResourceClaimSpec
			must.NoError(t, yaml.UnmarshalStrict([]byte(text), &claim.Devices))
			return claimOf(claim)
		}
	}
	t.Fatalf("docs/alignment.md has no claim with %q", words)
	return nil
}

// claimOf completes a claim as the API server would.
func claimOf(spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: "1"}, Spec: spec}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeExactCount, max(r.Exactly.Count, 1)
		}
		for j := range r.FirstAvailable {
			r.FirstAvailable[j].AllocationMode, r.FirstAvailable[j].Count = resourceapi.DeviceAllocationModeExactCount, 1
		}
	}
	return claim
}
