package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const LacksOptional = "the node does not declare " + draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate +
	", which the devices need"

// OptionalOperations reports whether a node can leave out operations of a driver.
func OptionalOperations(node *corev1.Node) bool {
	return slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
}

// Skips reports whether a claim has devices that need such a node.
func Skips(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(ResultsOf(claim), func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.SkipNodeOperations) > 0
	})
}

// unreachable returns why a pod cannot use a device on any node, "" if it can. shut has the nodes where the pod cannot
// go, with the reason.
func (v *View) unreachable(d *Device, shut map[string]string) string {
	name := d.Node()
	if why, ok := shut[name]; ok && name != "" {
		return why
	}
	if v.Guessed {
		return ""
	}
	needs := len(d.Slice.Spec.SkipNodeOperations) > 0
	switch node := v.Nodes[name]; {
	case name != "" && node == nil:
		return "node " + name + " does not exist"
	case name != "" && needs && !OptionalOperations(node):
		return LacksOptional
	case name != "":
		return ""
	}
	for i := range v.Cluster.Nodes {
		node := &v.Cluster.Nodes[i]
		if _, ok := shut[node.Name]; !ok && d.On(node, v.Features) && (!needs || OptionalOperations(node)) {
			return ""
		}
	}
	return "no node where the pod can go is one of those that can use the device"
}

// invalidPools marks and names the pools from which the allocator takes nothing because they contradict themselves.
func invalidPools(v *View) (names []string) {
	for id, p := range v.pool {
		if p.mayContradict() && p.contradicts(v.nodeOf(p.devices[0]), v.Features, v.CEL.Cache) {
			p.invalid = true
			names = append(names, fmt.Sprintf("%s of driver %s", id.pool, id.driver))
		}
	}
	slices.Sort(names)
	return names
}

// mayContradict reports whether slices of a pool may contradict each other. The API server checks each one alone.
func (p *pool) mayContradict() bool {
	return len(p.devices) > 0 && (len(p.slices) > 1 || slices.ContainsFunc(p.devices, (*Device).consumes))
}

// contradicts reports whether a device name is in a pool twice, or a counter is missing. The allocator says so if a
// claim requests all devices; this claim gets none.
func (p *pool) contradicts(node *corev1.Node, features structured.Features, cache *cel.Cache) bool {
	if node == nil {
		return false
	}
	ctx := context.Background()
	state := structured.AllocatedState{}
	allocator, err := structured.NewAllocator(ctx, features, state, ClassLister{noneName: noneClass}, p.slices, cache)
	if err != nil {
		return false
	}
	_, err = allocate(ctx, allocator, node, []*resourceapi.ResourceClaim{allOfNone()})
	return err != nil && strings.Contains(err.Error(), "is currently invalid")
}

func (d *Device) consumes() bool { return len(d.ConsumesCounters) > 0 }

// noneClass selects no device.
const noneName = "none"

var noneClass = &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
	CEL: &resourceapi.CELDeviceSelector{Expression: "false"},
}}}}

func allOfNone() *resourceapi.ResourceClaim {
	claim := pinClaim(nil)
	r := claim.Spec.Devices.Requests[0].Exactly
	r.DeviceClassName, r.AllocationMode, r.Count = noneName, resourceapi.DeviceAllocationModeAll, 0
	return claim
}
