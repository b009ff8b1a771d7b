package inspect

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// holder is a claim that has a device or a share of it.
type holder struct {
	claim  *resourceapi.ResourceClaim
	result *resourceapi.DeviceRequestAllocationResult
}

// admin is an administrator's access, which takes nothing from others.
func (h holder) admin() bool     { return deref(h.result.AdminAccess) }
func (h holder) takes() bool     { return !h.admin() }
func (h holder) exclusive() bool { return !h.admin() && h.result.ShareID == nil }

// holdings are the claims that have devices, by device.
type holdings map[structured.DeviceID][]holder

func (all holdings) add(claim *resourceapi.ResourceClaim) {
	results := resultsOf(claim)
	for i := range results {
		r := &results[i]
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		all[id] = append(all[id], holder{claim, r})
	}
}

// allocated sums up the allocations of claims as the scheduler's plugin does: devices, shares, and
// their consumed capacity. An administrator's access takes nothing.
func (all holdings) allocated(ended func(*resourceapi.ResourceClaim) bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for id, holders := range all {
		for _, h := range holders {
			switch {
			case h.admin(), ended != nil && ended(h.claim):
			case h.result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, h.result.ShareID))
				if h.result.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, h.result.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

// on returns the claims that hold a device in a certain way.
func (all holdings) on(id structured.DeviceID, how func(holder) bool) map[*resourceapi.ResourceClaim]int {
	out := map[*resourceapi.ResourceClaim]int{}
	for _, h := range all[id] {
		if how(h) {
			out[h.claim] = 1
		}
	}
	return out
}

// used sums up the capacities of a shared device that claims hold.
func (all holdings) used(d *device) map[string]Capacity {
	if !deref(d.AllowMultipleAllocations) {
		return nil
	}
	out := map[string]Capacity{}
	for name, c := range d.Capacity {
		sum := c.Value.DeepCopy()
		sum.Set(0)
		for _, h := range all[d.id] {
			sum.Add(h.result.ConsumedCapacity[name])
		}
		out[string(name)] = Capacity{c.Value.String(), sum.String()}
	}
	return out
}
