package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// node is a node with GPUs and HCAs, of the oldest supported Kubernetes.
type node struct {
	controlplane.Cluster
	t          *testing.T
	gpus, hcas []resourceapi.Device
}

// emptyNode has no devices, and the classes of the examples.
func emptyNode(t *testing.T) *node {
	const gpu, hca = `device.driver == "gpu.example.com"`, `device.driver == "rdma.dev"`
	const attribute = hca + ` && device.attributes["rdma.dev"].?`
	classes := []*resourceapi.DeviceClass{
		controlplane.Class("gpu.example.com", gpu),
		controlplane.Class("gpu.nvidia.com", gpu),
		controlplane.Class("hca.rdma.dev", hca),
		controlplane.Class("card.hca.example.com", attribute+`group.orValue("").startsWith("card-")`),
		controlplane.Class("rail.hca.example.com", attribute+"rail.orValue(-1) >= 0"),
	}
	return &node{t: t, Cluster: controlplane.Cluster{Node: "node", Features: controlplane.V134(), Classes: classes}}
}

func newNode(t *testing.T, machine string) *node {
	t.Helper()
	sys, snap := rdmatest.Sysfs(t, machine)
	n := emptyNode(t)
	n.gpus = slices(topology.Discover(sys, snap))[0].Devices
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
	allocation := &resourceapi.AllocationResult{}
	taken := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: allocation}}
	results := &allocation.Devices.Results
	for _, g := range n.gpus {
		for _, h := range n.hcas {
			if *g.Attributes["name"].StringValue == gpu && value(h, by) == value(g, by) {
				of := resourceapi.DeviceRequestAllocationResult{Driver: "rdma.dev", Pool: n.Node, Device: h.Name}
				*results = append(*results, of)
			}
		}
	}
	n.Claims = map[string]*resourceapi.ResourceClaim{"taken": taken}
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
func (n *node) exhaust(claim resourceapi.DeviceClaim, by resourceapi.QualifiedName) (claims, aligned, pairs int) {
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
	devices := n.hcas
	if r.Driver == driverName {
		devices = n.gpus
	}
	for _, d := range devices {
		if d.Name == r.Device {
			return d
		}
	}
	n.t.Fatalf("allocated an unknown device %s of %s", r.Device, r.Driver)
	return resourceapi.Device{}
}

// allocate publishes the devices, and allocates one more claim. It returns nil if there is nothing for it.
func (n *node) allocate(claim resourceapi.DeviceClaim) []resourceapi.DeviceRequestAllocationResult {
	n.t.Helper()
	found, err := n.find(claim)
	must.NoError(n.t, err)
	return found
}

// find is allocate with the error of the allocator.
func (n *node) find(claim resourceapi.DeviceClaim) ([]resourceapi.DeviceRequestAllocationResult, error) {
	n.Publish(driverName, []resourceslice.Slice{{Devices: n.gpus}})
	n.Publish("rdma.dev", []resourceslice.Slice{{Devices: n.hcas}})
	return n.TryAllocate(fmt.Sprint(len(n.Claims)), claim)
}

// exampleClaim is the claim that the first document of an example is the template
// of.
func exampleClaim(t *testing.T, name string) resourceapi.DeviceClaim {
	t.Helper()
	data, err := os.ReadFile("../../examples/" + name + ".yaml")
	must.NoError(t, err)
	first, _, _ := strings.Cut(string(data), "\n---\n")
	var template resourceapi.ResourceClaimTemplate
	must.NoError(t, yaml.UnmarshalStrict([]byte(first), &template))
	return complete(template.Spec.Spec.Devices)
}

// documentedClaim is the first claim of docs/alignment.md whose text has the given words.
func documentedClaim(t *testing.T, words string) resourceapi.DeviceClaim {
	t.Helper()
	data, err := os.ReadFile("../../docs/alignment.md")
	must.NoError(t, err)
	for block := range strings.SplitSeq(string(data), "```") {
		if text, ok := strings.CutPrefix(block, "yaml\n"); ok && strings.Contains(text, words) {
			var claim resourceapi.DeviceClaim
			must.NoError(t, yaml.UnmarshalStrict([]byte(text), &claim))
			return complete(claim)
		}
	}
	t.Fatalf("docs/alignment.md has no claim with %q", words)
	return resourceapi.DeviceClaim{}
}

// complete completes a claim as the API server would.
func complete(claim resourceapi.DeviceClaim) resourceapi.DeviceClaim {
	for i := range claim.Requests {
		r := &claim.Requests[i]
		if r.Exactly != nil {
			r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeExactCount, max(r.Exactly.Count, 1)
		}
		for j := range r.FirstAvailable {
			r.FirstAvailable[j].AllocationMode, r.FirstAvailable[j].Count = resourceapi.DeviceAllocationModeExactCount, 1
		}
	}
	return claim
}
