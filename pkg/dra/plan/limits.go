package plan

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// Limits bound what each container that uses a device holds of each of its HCAs,
// by the kernel's rdma cgroup controller; 0 is no limit (docs/adr/0010).
type Limits struct {
	Handles int64 `json:"handles,omitempty"` // open contexts, hca_handle
	Objects int64 `json:"objects,omitempty"` // verbs objects, hca_object
}

// limits merges, for each limit, what was said with the claim's share of the device,
// which is what the scheduler gave it of the capacity of that name. A wish may
// lower the share and not raise it; a default of the class and the highest limit
// of the class cut it. Whoever has access for monitoring has no share. A user alone
// can set no limit: most kernels do not survive one (docs/hook.md), so somebody who
// runs the node has to have opted in.
func (w *words) limits(admin bool, consumed map[resourceapi.QualifiedName]resource.Quantity) (Limits, error) {
	var values [2]int64
	for i, name := range v1alpha1.LimitFields {
		share, shared := consumedOf(consumed, name)
		if admin {
			share, shared = 0, false
		}
		if shared && share < 1 {
			return Limits{}, fmt.Errorf("the claim asks for %d %s of a shared device, and could open nothing: ask for at least 1 in capacity.requests, or for none to get the default", share, name)
		}
		wish := w.wishes.Limits.Get(name)
		byDefault, highest := w.defaults.Limits.Get(name), w.allow.LimitsMax.Get(name)
		switch {
		case wish > 0 && !shared && !admin && byDefault == 0 && highest == 0:
			return Limits{}, fmt.Errorf("the claim's parameters: limits.%[1]s: the administrator has not opted in to limits on this device: leave it out, or name a DeviceClass that has allow.limitsMax.%[1]s", name)
		case wish > 0 && shared && wish > share:
			return Limits{}, fmt.Errorf("the claim's parameters: limits.%s: %d is more than the claim's share of the device, %d: ask for more in capacity.requests of the request", name, wish, share)
		case wish > 0:
			values[i] = wish
		default:
			values[i] = lowest(share, byDefault, highest)
		}
	}
	return Limits{Handles: values[0], Objects: values[1]}, nil
}

// consumedOf returns what a result has of a capacity of the driver, up to what the
// kernel takes as a limit.
func consumedOf(consumed map[resourceapi.QualifiedName]resource.Quantity, name string) (int64, bool) {
	for _, key := range []resourceapi.QualifiedName{resourceapi.QualifiedName(name), resourceapi.QualifiedName(DriverName + "/" + name)} {
		if q, ok := consumed[key]; ok {
			return min(q.Value(), v1alpha1.MaxLimit), true
		}
	}
	return 0, false
}

// lowest returns the lowest limit of those that are set, 0 if none is.
func lowest(limits ...int64) int64 {
	var out int64
	for _, l := range limits {
		if l > 0 && (out == 0 || l < out) {
			out = l
		}
	}
	return out
}
