package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// ClassLister are DeviceClasses by their names. The allocator reads them from here.
type ClassLister map[string]*resourceapi.DeviceClass

// List returns all classes, for the allocator.
func (c ClassLister) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c)), nil
}

// Get returns a class by its name, for the allocator.
func (c ClassLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// Names lists the first names of the classes.
func (c ClassLister) Names() string {
	if len(c) == 0 {
		return "none (the cluster has no DeviceClass)"
	}
	return text.First(slices.Sorted(maps.Keys(c)), 10, ", ")
}

// Fits tries an allocation of the claims on each node with the scheduler's allocator. It returns the
// first node on which all of them fit, "" if there is none. It ignores claims for which ended
// returns true.
func (v *View) Fits(
	ctx context.Context, nodes []*corev1.Node, claims []*resourceapi.ResourceClaim,
	ended func(*resourceapi.ResourceClaim) bool,
) (string, error) {
	taken := v.taken
	if ended != nil {
		taken = v.Holdings.allocated(ended)
	}
	allocator, err := structured.NewAllocator(ctx, v.Features, taken, v.Classes, v.Slices, v.CEL.Cache)
	if err != nil {
		return "", fmt.Errorf("prepare an allocation: %w", err)
	}
	for _, node := range nodes {
		results, err := allocate(ctx, allocator, node, claims)
		if err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode) {
			return "", fmt.Errorf("try an allocation on node %s: %w", node.Name, err)
		}
		if err == nil && len(results) == len(claims) {
			return node.Name, nil
		}
	}
	return "", nil
}

// allocate turns a panic into an error. The allocator trusts objects that an API server of its own version accepts. A
// newer API server may accept more. This program then sees an empty field in its place.
func allocate(
	ctx context.Context, a structured.Allocator, node *corev1.Node, claims []*resourceapi.ResourceClaim,
) (results []resourceapi.AllocationResult, err error) {
	defer func() {
		if r := recover(); r != nil {
			results, err = nil, fmt.Errorf("the allocator of this program does not understand a claim, class or slice "+
				"(is the cluster newer than the program?): %v", r)
		}
	}()
	return a.Allocate(ctx, node, claims)
}

// The attribute and the class of a request for one certain device. The device may then have one attribute more than
// an API server accepts; the allocator does not check this.
const (
	pinDomain = "inspect.rdma.dev"
	pinName   = "pinned"
)

var pinClass = &resourceapi.DeviceClass{
	ObjectMeta: metav1.ObjectMeta{Name: pinName},
	Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
		CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("has(device.attributes[%q].%s)", pinDomain, pinName)},
	}}},
}

// available reports whether the allocator could give a device to one more request, whatever its
// taints are. The allocator sees only this device and the held ones of its pool, because
// other devices would only take time.
func (v *View) available(ctx context.Context, d *Device, capacity *resourceapi.CapacityRequirements) (bool, error) {
	node := v.nodeOf(d)
	if node == nil {
		return false, nil
	}
	var pool []*resourceapi.ResourceSlice
	for _, s := range v.pool[idOf(d.Slice)].slices {
		pool = append(pool, v.pinned(s, d))
	}
	allocator, err := structured.NewAllocator(ctx, v.Features, v.taken, ClassLister{pinName: pinClass}, pool, v.CEL.Cache)
	if err != nil {
		return false, fmt.Errorf("prepare an allocation of %s: %w", d, err)
	}
	results, err := allocate(ctx, allocator, node, []*resourceapi.ResourceClaim{pinClaim(capacity)})
	if err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return false, fmt.Errorf("try an allocation of %s: %w", d, err)
	}
	return len(results) > 0, nil
}

// pinned returns a slice with only the given device, marked by an attribute, and the held devices.
func (v *View) pinned(s *resourceapi.ResourceSlice, pin *Device) *resourceapi.ResourceSlice {
	out := *s
	out.Spec.Devices = nil
	for _, d := range s.Spec.Devices {
		id := structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)
		switch {
		case id == pin.ID && s.Name == pin.Slice.Name:
			d = *pin.DeepCopy()
			if d.Attributes == nil {
				d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
			}
			d.Attributes[pinDomain+"/"+pinName] = resourceapi.DeviceAttribute{BoolValue: new(true)}
		case len(v.Holdings[id]) == 0:
			continue
		}
		out.Spec.Devices = append(slices.Clip(out.Spec.Devices), d)
	}
	return &out
}

func pinClaim(capacity *resourceapi.CapacityRequirements) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = "default", "pinned", "pinned"
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "device", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: pinName, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1, Capacity: capacity,
		Tolerations: []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}},
	}}}
	return claim
}

// TimeIsOver reports whether an error means that the time is over.
func TimeIsOver(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
