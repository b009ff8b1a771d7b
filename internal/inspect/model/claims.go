package model

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// ClaimState is the state of a claim.
type ClaimState string

// The states.
const (
	ClaimPending   ClaimState = "Pending"   // has no devices
	ClaimAllocated ClaimState = "Allocated" // has devices, and no pod uses them
	ClaimInUse     ClaimState = "InUse"
	ClaimDeleting  ClaimState = "Deleting"
)

// StateOf returns the state of a claim.
func StateOf(c *resourceapi.ResourceClaim) ClaimState {
	switch {
	case c.DeletionTimestamp != nil:
		return ClaimDeleting
	case c.Status.Allocation == nil:
		return ClaimPending
	case len(c.Status.ReservedFor) > 0:
		return ClaimInUse
	}
	return ClaimAllocated
}

// ResultsOf returns the allocation of a claim, nothing while it is pending.
func ResultsOf(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.Devices.Results
}

// AllocatedTo lists the devices of a claim without duplicates.
func AllocatedTo(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range ResultsOf(claim) {
		out = AppendNew(out, DeviceName(structured.MakeDeviceID(r.Driver, r.Pool, r.Device)))
	}
	return out
}

// ClaimNode returns the node of a claim's devices of this driver, "" if it has none: the driver's
// pools have the names of their nodes.
func ClaimNode(claim *resourceapi.ResourceClaim) string {
	for _, r := range ResultsOf(claim) {
		if r.Driver == rdma.Domain {
			return r.Pool
		}
	}
	return ""
}

// PodsOf returns the names of the pods that a claim is reserved for.
func PodsOf(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range claim.Status.ReservedFor {
		if r.Resource == "pods" {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out
}

// PodGroupsOf returns the names of the PodGroups that a claim is reserved for.
func PodGroupsOf(claim *resourceapi.ResourceClaim) (out []string) {
	for _, r := range claim.Status.ReservedFor {
		if r.APIGroup == schedulingapi.GroupName && r.Resource == "podgroups" {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out
}

// ClaimName returns namespace/name.
func ClaimName(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name }
