package resources_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestSlicesAreValid checks what the API server would: its generated validation,
// and the rules that it keeps in its own tree
// (kubernetes/pkg/apis/resource/validation/validation.go).
func TestSlicesAreValid(t *testing.T) {
	snaps := map[string]*rdma.Snapshot{"large": large(t, 1016)}
	for _, machine := range fixture.Names() {
		snaps[machine] = snapshot(t, machine)
	}
	for machine, snap := range snaps {
		t.Run(machine, func(t *testing.T) {
			for _, s := range objects(exclusive(snap)) {
				op := operation.Operation{Type: operation.Create, Options: map[string]bool{"DRAPartitionableDevicesType": false}}
				errs := resourceapi.Validate_ResourceSliceSpec(context.Background(), op, field.NewPath("spec"), &s.Spec, nil)
				errs = append(errs, validateSlice(&s.Spec)...)
				if err := errs.ToAggregate(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// objects makes the objects that the library would publish.
func objects(in []resourceslice.Slice) []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for i, s := range in {
		name := node
		object := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: plan.DriverName, NodeName: &name, Devices: s.Devices,
			Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: int64(len(in))},
		}}
		object.Name = fmt.Sprintf("%05x-%s", i, node)
		out = append(out, object)
	}
	return out
}

func validateSlice(spec *resourceapi.ResourceSliceSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	bad := func(p *field.Path, value any, messages ...string) {
		for _, m := range messages {
			errs = append(errs, field.Invalid(p, value, m))
		}
	}
	bad(path.Child("driver"), spec.Driver, validation.IsDNS1123Subdomain(spec.Driver)...)
	if n := len(spec.Devices); n > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures {
		bad(path.Child("devices"), n, "too many")
	}
	for i, d := range spec.Devices {
		device := path.Child("devices").Index(i)
		bad(device.Child("name"), d.Name, validation.IsDNS1123Label(d.Name)...)
		bad(device.Child("name"), d.Name, apivalidation.NameIsDNSLabel(d.Name, false)...)
		if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			bad(device, n, "too many attributes and capacities")
		}
		for name, a := range d.Attributes {
			errs = append(errs, validateAttribute(device.Child("attributes").Key(string(name)), name, a)...)
		}
	}
	return errs
}

func validateAttribute(path *field.Path, name resourceapi.QualifiedName, a resourceapi.DeviceAttribute) field.ErrorList {
	var errs field.ErrorList
	domain, id := splitName(name)
	messages := validation.IsCIdentifier(id)
	if len(id) > resourceapi.DeviceMaxIDLength {
		messages = append(messages, "too long")
	}
	if domain != "" {
		messages = append(messages, validation.IsDNS1123Subdomain(domain)...)
	}
	if a.StringValue != nil && (*a.StringValue == "" || len(*a.StringValue) > resourceapi.DeviceAttributeMaxValueLength) {
		messages = append(messages, "the value is empty or too long")
	}
	for _, m := range messages {
		errs = append(errs, field.Invalid(path, name, m))
	}
	return errs
}

// An attribute that is longer than the API takes is left out: it would make the
// whole slice invalid.
func TestLongValueIsLeftOut(t *testing.T) {
	snap := snapshot(t, "hgx-h100")
	h := snap.HCAs[0]
	long := ""
	for len(long) <= resourceapi.DeviceAttributeMaxValueLength {
		long += "firmware "
	}
	h.Firmware = long
	if a, ok := resources.Attributes(&h, snap.NetnsMode)["firmware"]; ok {
		t.Errorf("firmware is published as %q", *a.StringValue)
	}
}

// splitName splits a qualified name into domain, "" for the driver's own, and
// identifier.
func splitName(name resourceapi.QualifiedName) (domain, id string) {
	if domain, id, ok := strings.Cut(string(name), "/"); ok {
		return domain, id
	}
	return "", string(name)
}
