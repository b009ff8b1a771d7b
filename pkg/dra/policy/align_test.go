package policy_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

const (
	gpuDriver = "gpu.example.com"
	pcieRoot  = "resource.kubernetes.io/pcieRoot"
	numaNode  = "resource.kubernetes.io/numaNode"
	inSwitch  = "rdma.dev/pcieSwitch"
)

// place is where a GPU or an HCA sits, in the terms of a constraint.
type place func(*topology.Device) string

var places = map[string]place{
	pcieRoot: func(d *topology.Device) string { return d.Root },
	inSwitch: func(d *topology.Device) string { return (&rdma.PCIFunction{Bridges: d.Bridges}).Switch() },
	numaNode: func(d *topology.Device) string {
		if d.NUMANode == nil {
			return ""
		}
		return fmt.Sprint(*d.NUMANode)
	},
}

// gpus is what a GPU driver publishes of a machine: the standard attributes, and the
// switch under the name that this driver has for it.
func gpus(host *topology.Topology) []resourceslice.Slice {
	var s resourceslice.Slice
	for i, d := range host.Accelerators() {
		device := resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				deviceattribute.StandardDeviceAttributePCIBusID: {StringValue: new(d.Address)},
			}}
		for _, name := range []string{pcieRoot, inSwitch} {
			if at := places[name](d); at != "" {
				device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: new(at)}
			}
		}
		if d.NUMANode != nil {
			device.Attributes[numaNode] = resourceapi.DeviceAttribute{IntValue: new(int64(*d.NUMANode))}
		}
		s.Devices = append(s.Devices, device)
	}
	return []resourceslice.Slice{s}
}

// gpuCluster is a node with the GPUs and HCAs of a machine.
func gpuCluster(t *testing.T, name, text string) (*controlplane.Cluster, *topology.Topology) {
	t.Helper()
	c := newCluster(t, name, text, controlplane.V136())
	c.Classes = append(c.Classes, controlplane.Class("gpu", `device.driver == "gpu.example.com"`))
	host := topology.Discover(machine(t, name).FS(t), snapshot(t, name))
	c.Publish(gpuDriver, gpus(host))
	return c, host
}

// aligned is how many claims for a GPU and some HCAs a machine can align: in each place
// as many as its GPUs and HCAs suffice for.
func aligned(host *topology.Topology, where place, hcas int) int {
	gpus, nics := map[string]int{}, map[string]int{}
	for _, d := range host.Accelerators() {
		gpus[where(d)]++
	}
	for _, d := range host.HCAs() {
		nics[where(d)]++
	}
	sum := 0
	for at, n := range gpus {
		if at != "" {
			sum += min(n, nics[at]/hcas)
		}
	}
	return sum
}

// TestAlignment counts, on machines with GPUs, the claims for a GPU with its HCAs that
// the scheduler aligns one after the other: all that can be.
func TestAlignment(t *testing.T) {
	for _, tc := range []struct {
		machine   string
		hcas      int64 // for each GPU
		attribute string
		want      int
	}{
		{"dgx-h100-ib", 1, pcieRoot, 8},
		{"dgx-h100-ib", 1, inSwitch, 8},
		{"dgx-h100-ib", 1, numaNode, 8},
		{"hgx-h100", 1, pcieRoot, 8},
		{"hgx-h100", 1, inSwitch, 8},
		{"hgx-h100", 1, numaNode, 8},
		{"aws-p5", 4, pcieRoot, 8},
		{"aws-p5", 4, inSwitch, 8},
		{"aws-p5", 4, numaNode, 8},
		{"aws-p5", 1, pcieRoot, 8},
	} {
		t.Run(fmt.Sprintf("%s/%d/%s", tc.machine, tc.hcas, tc.attribute), func(t *testing.T) {
			c, host := gpuCluster(t, tc.machine, "")
			must.Eq(t, tc.want, aligned(host, places[tc.attribute], int(tc.hcas)),
				must.Sprint("the machine can align"))
			claim := controlplane.Match(controlplane.Claim(
				controlplane.Want("gpu", "gpu"), controlplane.Request{Name: "nic", Class: hca, Count: tc.hcas}), tc.attribute)
			got := 0
			for take(t, c, fmt.Sprintf("claim-%d", got), claim) != nil {
				checkAligned(t, c, host, fmt.Sprintf("claim-%d", got), tc.attribute)
				got++
			}
			t.Logf("%d of %d claims aligned", got, tc.want)
			test.Eq(t, tc.want, got, test.Sprint("claims are aligned"))
		})
	}
}

// checkAligned compares the places of a claim's devices in the host's own tree.
func checkAligned(t *testing.T, c *controlplane.Cluster, host *topology.Topology, claim, attribute string) {
	t.Helper()
	at := map[string]bool{}
	for _, r := range c.Claims[claim].Status.Allocation.Devices.Results {
		at[places[attribute](deviceAt(t, host, c, r))] = true
	}
	test.True(t, len(at) == 1 && !at[""], test.Sprintf("the devices of %s are at %v", claim, at))
}

// deviceAt finds an allocated device by its PCI address.
func deviceAt(t *testing.T, host *topology.Topology, c *controlplane.Cluster,
	r resourceapi.DeviceRequestAllocationResult) *topology.Device {
	t.Helper()
	for _, s := range c.Slices() {
		for _, d := range s.Spec.Devices {
			if s.Spec.Driver != r.Driver || d.Name != r.Device {
				continue
			}
			address := *d.Attributes[deviceattribute.StandardDeviceAttributePCIBusID].StringValue
			for _, device := range host.Devices {
				if device.Address == address {
					return device
				}
			}
		}
	}
	t.Fatalf("no device %s of driver %s is on the host", r.Device, r.Driver)
	return nil
}

// TestFourPairs: four GPUs, each with an HCA below its root, in one claim; twice, and
// then the host is full.
func TestFourPairs(t *testing.T) {
	for _, machine := range []string{"dgx-h100-ib", "hgx-h100", "aws-p5"} {
		c, host := gpuCluster(t, machine, "")
		var requests []controlplane.Request
		for i := range 4 {
			requests = append(requests, controlplane.Want(fmt.Sprintf("gpu%d", i), "gpu"),
				controlplane.Want(fmt.Sprintf("nic%d", i), hca))
		}
		claim := controlplane.Claim(requests...)
		for i := range 4 {
			claim = controlplane.Match(claim, pcieRoot, fmt.Sprintf("gpu%d", i), fmt.Sprintf("nic%d", i))
		}
		for _, name := range []string{"first", "second"} {
			results := c.Allocate(t, name, claim)
			must.Eq(t, 8, len(results), must.Sprintf("%s: claim %s gets", machine, name))
			for i := 0; i < 8; i += 2 {
				gpu, nic := deviceAt(t, host, c, results[i]), deviceAt(t, host, c, results[i+1])
				test.Eq(t, nic.Root, gpu.Root, test.Sprintf("%s: %s", machine, gpu.Name))
			}
		}
		test.Nil(t, take(t, c, "third", claim), test.Sprintf("%s: a third claim gets", machine))
	}
}

// TestPreferred: an HCA near the GPU where there is one, else one on its NUMA node.
func TestPreferred(t *testing.T) {
	c, host := gpuCluster(t, "hgx-h100", "")
	gpu := host.Accelerators()[0]
	claim := controlplane.Claim(controlplane.Want("gpu", "gpu", at(gpu.Address)...),
		controlplane.Request{Name: "nic", First: []controlplane.Request{
			controlplane.Want("near", hca), controlplane.Want("far", hca),
		}})
	claim = controlplane.Match(controlplane.Match(claim, pcieRoot, "gpu", "nic/near"), numaNode, "gpu", "nic/far")
	request := func(name string) string {
		results := c.Allocate(t, name, claim)
		must.Eq(t, 2, len(results), must.Sprintf("claim %s gets %v", name, results))
		return results[1].Request
	}
	test.Eq(t, "nic/near", request("near"), test.Sprint("the claim gets"))
	checkAligned(t, c, host, "near", pcieRoot)
	c.Release("near")
	nearby := fmt.Sprintf(`device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("") == %q`, gpu.Root)
	must.NotNil(t, take(t, c, "other", controlplane.Claim(controlplane.Want("nic", hca, nearby))),
		must.Sprint("there is no HCA near the GPU"))
	test.Eq(t, "nic/far", request("far"), test.Sprint("the claim gets"))
	checkAligned(t, c, host, "far", numaNode)
}

// TestRails: two workers on two nodes of one kind get the same rails, since rails are
// numbered alike on both.
func TestRails(t *testing.T) {
	const rails = "rules: [{name: compute, selectors: [{cel: {expression: 'device.attributes[\"rdma.dev\"].protocol == \"ib\"'}}], rails: 8}]"
	claim := func(rail int) resourceapi.DeviceClaim {
		return controlplane.Match(controlplane.Claim(controlplane.Want("gpu", "gpu"),
			controlplane.Want("nic", hca, fmt.Sprintf(`device.attributes["rdma.dev"].?rail.orValue(-1) == %d`, rail))), pcieRoot)
	}
	first, host := gpuCluster(t, "dgx-h100-ib", rails)
	second, _ := gpuCluster(t, "dgx-h100-ib", rails)
	used := map[string]bool{}
	for rail := range 8 {
		a, b := first.Allocate(t, fmt.Sprint(rail), claim(rail)), second.Allocate(t, fmt.Sprint(rail), claim(rail))
		must.True(t, len(a) == 2 && len(b) == 2 && a[1].Device == b[1].Device && !used[a[1].Device],
			must.Sprintf("rail %d is %v on one node and %v on the other", rail, a, b))
		used[a[1].Device] = true
		checkAligned(t, first, host, fmt.Sprint(rail), pcieRoot)
	}
}
