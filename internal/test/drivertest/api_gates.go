package drivertest

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

// The feature gates that an API server may have off. It drops the fields then.
const (
	GateConsumable = "DRAConsumableCapacity"
	GateCounters   = "DRAPartitionableDevices"
	GateTaints     = "DRADeviceTaints"
)

// oneSlice is no gate: Kubernetes 1.34 wants counters and the devices that use them
// in one slice.
const oneSlice = "counters beside devices"

// NoneEffect is no gate either: API servers before Kubernetes 1.36 do not know the
// effect None of a taint.
const NoneEffect = "effect None"

// GatesOff turns feature gates off: those named, and no others.
func (a *API) GatesOff(gates ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.gatesOff)
	for _, g := range gates {
		a.gatesOff[g] = true
	}
}

// CountersBesideDevices makes the server refuse counters in a slice without the
// devices that use them, as Kubernetes 1.34 does.
func (a *API) CountersBesideDevices() { a.GatesOff(oneSlice) }

// drop removes the fields of a slice that belong to gates that are off. The caller holds the lock.
func (a *API) drop(s *resourceapi.ResourceSlice) {
	controlplane.Drop(controlplane.Features{
		PartitionableDevices: !a.gatesOff[GateCounters],
		DeviceTaints:         !a.gatesOff[GateTaints],
		ConsumableCapacity:   !a.gatesOff[GateConsumable],
	}, s)
}

// invalid returns why the server refuses a slice, "" if it does not. The caller
// holds the lock.
func (a *API) invalid(s *resourceapi.ResourceSlice) string {
	if s.Spec.Pool.Generation < 0 {
		return fmt.Sprintf("spec.pool.generation: Invalid value: %d: must be greater than or equal to zero", s.Spec.Pool.Generation)
	}
	for i, d := range s.Spec.Devices {
		for j, t := range d.Taints {
			if a.gatesOff[NoneEffect] && t.Effect == resourceapi.DeviceTaintEffectNone {
				return fmt.Sprintf("spec.devices[%d].taints[%d].effect: Unsupported value: \"None\": supported values: \"NoExecute\", \"NoSchedule\"", i, j)
			}
		}
		if a.gatesOff[oneSlice] && len(d.ConsumesCounters) > 0 && len(s.Spec.SharedCounters) == 0 {
			return fmt.Sprintf("spec.devices[%d].consumesCounters[0].counterSet: Invalid value: %q: must reference a counterSet defined in the ResourceSlice sharedCounters", i, d.ConsumesCounters[0].CounterSet)
		}
	}
	return ""
}
