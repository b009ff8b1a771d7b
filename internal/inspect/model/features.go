package model

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// LacksShares reports whether the device is a shared one of ours from which the API server dropped that many claims can
// have it.
func (d *Device) LacksShares() bool {
	shared := d.Attributes[rdma.AttributeShared].BoolValue
	return d.Slice.Spec.Driver == rdma.Domain && ptr.Deref(shared, false) && !ptr.Deref(d.AllowMultipleAllocations, false)
}

// WithoutShares says what the API server lacks if a device lacks shares.
func (c *Cluster) WithoutShares() string {
	return fmt.Sprintf("the API server lacks shares (%s): each shared HCA is for one claim at a time",
		featuregate.Words(featuregate.ConsumableCapacity, c.Minor))
}

// featuresOf returns the optional features of the cluster. An API server drops the fields of features that it does not
// have, so the features that are on in Kubernetes 1.37 are on: without their fields they change nothing. A feature that
// is off there is on if an object has its field. Only FractionalCapacityRange has no field of its own: without it, the
// scheduler rounds the fractions of a range.
func featuresOf(c *Cluster) structured.Features {
	f := structured.Features{
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
		DeviceBindingAndStatus: true, ConsumableCapacity: true,
		FractionalCapacityRange: c.Minor == 0 || featuregate.On(featuregate.FractionalCapacityRange, c.Minor),
	}
	for i := range c.Slices {
		spec := &c.Slices[i].Spec
		f.OptionalNodeOperations = f.OptionalNodeOperations || len(spec.SkipNodeOperations) > 0
		for j := range spec.Devices {
			deviceFeatures(&f, &spec.Devices[j])
		}
	}
	for i := range c.Claims {
		for _, r := range RequestsOf(&c.Claims[i]) {
			f.DerivedAttributes = f.DerivedAttributes || r.derived
		}
	}
	return f
}

func deviceFeatures(f *structured.Features, d *resourceapi.Device) {
	for _, a := range d.Attributes {
		f.ListTypeAttributes = f.ListTypeAttributes ||
			a.IntValues != nil || a.StringValues != nil || a.BoolValues != nil || a.VersionValues != nil
	}
	for _, consumed := range d.ConsumesCounters {
		f.CompatibilityGroups = f.CompatibilityGroups || len(consumed.CompatibilityGroups) > 0
	}
}
