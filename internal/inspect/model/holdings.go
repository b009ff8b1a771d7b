package model

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// holder is a claim that has a device or a share of it.
type holder struct {
	Claim  *resourceapi.ResourceClaim
	Result *resourceapi.DeviceRequestAllocationResult
}

// Admin is an administrator's access, which takes nothing from others.
func (h holder) Admin() bool     { return ptr.Deref(h.Result.AdminAccess, false) }
func (h holder) takes() bool     { return !h.Admin() }
func (h holder) exclusive() bool { return !h.Admin() && h.Result.ShareID == nil }

// Holdings are the claims that have devices, by device.
type Holdings map[structured.DeviceID][]holder

func (all Holdings) add(claim *resourceapi.ResourceClaim) {
	results := ResultsOf(claim)
	for i := range results {
		r := &results[i]
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		all[id] = append(all[id], holder{claim, r})
	}
}

// allocated sums up the allocations of claims as the scheduler's plugin does: devices, shares, and
// their consumed capacity. An administrator's access takes nothing.
func (all Holdings) allocated(ended func(*resourceapi.ResourceClaim) bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for id, holders := range all {
		for _, h := range holders {
			switch {
			case h.Admin(), ended != nil && ended(h.Claim):
			case h.Result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, h.Result.ShareID))
				if h.Result.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, h.Result.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

// on returns the claims that hold a device in a certain way.
func (all Holdings) on(id structured.DeviceID, how func(holder) bool) map[*resourceapi.ResourceClaim]int {
	out := map[*resourceapi.ResourceClaim]int{}
	for _, h := range all[id] {
		if how(h) {
			out[h.Claim] = 1
		}
	}
	return out
}

// Names returns the names of the claims that take a device, sorted. An administrator's claim takes none.
func (all Holdings) Names(id structured.DeviceID) (out []string) {
	for claim := range all.on(id, holder.takes) {
		out = append(out, ClaimName(claim))
	}
	slices.Sort(out)
	return out
}
