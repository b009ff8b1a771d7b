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

// BandwidthStep is what requests for bandwidth are rounded up to, in bits per
// second: the unit that the kernel gives rates in. A bandwidth is at least this.
const BandwidthStep = 1_000_000

// published returns the capacities with their request policies. Each has a
// default, since without one a claim that asks for nothing gets all there is.
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

// part is what of a total belongs to the default shares.
func (c Capacity) part(total int64) int64 { return max(1, total/c.Shares*c.DefaultShares) }

// drained is a capacity that leaves room for no further claim where at least one
// holds a share. A taint says the same, but not to every API server.
func (c Capacity) drained() Capacity {
	c.Shares, c.DefaultShares = 1, 1
	return c
}

// consumable makes a capacity. A request takes lowest of it, or lowest and some steps. The API accepts no step that
// leads from lowest past value.
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
