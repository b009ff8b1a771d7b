package plan

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Limits bound what each container with a device uses of each HCA of the device. The kernel's rdma cgroup controller
// enforces them. 0 means no limit (docs/adr/0010).
type Limits struct {
	Handles int64 `json:"handles,omitempty"` // open contexts, hca_handle
	Objects int64 `json:"objects,omitempty"` // verbs objects, hca_object
}

// limits returns, for each limit, the merged value of the configurations and the claim's share of the device. The share
// is the capacity of that name that the scheduler gave to the claim. A limit of the claim may lower the share, and must
// not exceed it. Without one, the lowest of the share, the default of the class and the maximum of the class applies.
// Access for monitoring has no share. A user alone cannot set a limit, because most kernels crash on one
// (docs/hook.md): an administrator must opt in.
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
		wish := w.requested.Limits.Get(name)
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

// checkShares returns an error if a claim names more addresses than it has shares. The GID table of a port has room for
// one address of each share (docs/sharing.md), so one claim would take the room of others.
func (d *Device) checkShares(consumed map[resourceapi.QualifiedName]resource.Quantity) error {
	shares, counted := consumedOf(consumed, "shares")
	if d.Network == nil || !counted || int64(len(d.Network.Addresses)) <= shares {
		return nil
	}
	return fmt.Errorf("the claim's parameters: network.addresses: %d addresses need as many shares of the device, and the claim has %d: ask for %[1]d shares in capacity.requests of the request, or name fewer addresses", len(d.Network.Addresses), shares)
}

// consumedOf returns the amount of a capacity of the driver in a result, and whether there is one. It cuts the amount
// to the highest limit of the kernel.
func consumedOf(consumed map[resourceapi.QualifiedName]resource.Quantity, name string) (int64, bool) {
	for _, key := range []resourceapi.QualifiedName{resourceapi.QualifiedName(name), resourceapi.QualifiedName(rdma.Domain + "/" + name)} {
		if q, ok := consumed[key]; ok {
			return min(q.Value(), v1alpha1.MaxLimit), true
		}
	}
	return 0, false
}

// lowest returns the lowest limit that is set, 0 if none is.
func lowest(limits ...int64) int64 {
	var out int64
	for _, l := range limits {
		if l > 0 && (out == 0 || l < out) {
			out = l
		}
	}
	return out
}
