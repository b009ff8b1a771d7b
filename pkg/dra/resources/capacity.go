package resources

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The capacities of a shared device, in the driver's domain.
const (
	CapacityShares    resourceapi.QualifiedName = "shares"
	CapacityBandwidth resourceapi.QualifiedName = "bandwidth"
	CapacityHandles   resourceapi.QualifiedName = "handles"
	CapacityObjects   resourceapi.QualifiedName = "objects"
)

// BandwidthStep is the unit to which requests for bandwidth are rounded up, in bits per second. The kernel reports
// rates in this unit. It is also the smallest bandwidth.
const BandwidthStep = 1_000_000

// published returns the capacities with their request policies. Each policy has a default, because without one a claim
// that requests nothing gets the whole capacity.
func (c Capacity) published() map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		CapacityShares: consumable(count(c.Shares), min(c.DefaultShares, c.Shares), 1, 1),
	}
	if c.Bandwidth != nil {
		out[CapacityBandwidth] = consumable(*c.Bandwidth, 0, 0, BandwidthStep)
	}
	if c.Handles > 0 {
		out[CapacityHandles] = consumable(count(c.Handles), c.part(c.Handles), 1, 1)
	}
	if c.Objects > 0 {
		out[CapacityObjects] = consumable(count(c.Objects), c.part(c.Objects), 1, 1)
	}
	return out
}

// part returns the part of a total that belongs to the default shares.
func (c Capacity) part(total int64) int64 { return max(1, total/c.Shares*c.DefaultShares) }

// drained returns a capacity without room for another claim, if at least one claim holds a share. A taint has the same
// effect, but not every API server supports taints.
func (c Capacity) drained() Capacity {
	c.Shares, c.DefaultShares = 1, 1
	return c
}

// consumable makes a capacity. A request takes lowest, or lowest and a number of steps. The API rejects a step that
// leads from lowest beyond value.
func consumable(value resource.Quantity, byDefault, lowest, step int64) resourceapi.DeviceCapacity {
	valid := &resourceapi.CapacityRequestPolicyRange{Min: new(count(lowest))}
	if value.CmpInt64(lowest+step) >= 0 {
		valid.Step = new(count(step))
	}
	return resourceapi.DeviceCapacity{
		Value:         value,
		RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: new(count(byDefault)), ValidRange: valid},
	}
}

func count(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
