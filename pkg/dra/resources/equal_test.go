package resources_test

import (
	"reflect"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// TestEqual: the same host is the same, and nothing that can be published of a device
// is passed over.
func TestEqual(t *testing.T) {
	for _, machine := range fixture.Names() {
		first, second := exclusive(rdmatest.Snapshot(t, machine)), exclusive(rdmatest.Snapshot(t, machine))
		if !resources.Equal(first, second) {
			t.Errorf("%s differs from itself", machine)
		}
	}
	device := resourceapi.Device{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"x": {}}}
	for i := range reflect.TypeFor[resourceapi.DeviceAttribute]().NumField() {
		var changed resourceapi.DeviceAttribute
		fill(reflect.ValueOf(&changed).Elem().Field(i))
		other := *device.DeepCopy()
		other.Attributes["x"] = changed
		differ(t, "DeviceAttribute", i, of(device), of(other))
	}
	for i := range reflect.TypeFor[resourceapi.Device]().NumField() {
		other := *device.DeepCopy()
		fill(reflect.ValueOf(&other).Elem().Field(i))
		differ(t, "Device", i, of(device), of(other))
	}
	for i := range reflect.TypeFor[resourceslice.Slice]().NumField() {
		var other resourceslice.Slice
		fill(reflect.ValueOf(&other).Elem().Field(i))
		differ(t, "Slice", i, []resourceslice.Slice{{}}, []resourceslice.Slice{other})
	}
}

func of(d resourceapi.Device) []resourceslice.Slice {
	return []resourceslice.Slice{{Devices: []resourceapi.Device{d}}}
}

func differ(t *testing.T, kind string, field int, a, b []resourceslice.Slice) {
	t.Helper()
	if equality.Semantic.DeepEqual(a, b) {
		t.Fatalf("field %d of %s was not changed", field, kind)
	}
	if resources.Equal(a, b) {
		t.Errorf("field %d of %s is not compared", field, kind)
	}
}

// fill gives a field a value that is not its zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("filled")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	}
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		v.Set(reflect.ValueOf(resource.MustParse("7")))
	}
}

// BenchmarkEqual compares all devices of a large host, as with each event.
func BenchmarkEqual(b *testing.B) {
	m, err := fixture.Large(1016)
	if err != nil {
		b.Fatal(err)
	}
	first, second := exclusive(rdmatest.Discover(b, m)), exclusive(rdmatest.Discover(b, m))
	for b.Loop() {
		if !resources.Equal(first, second) {
			b.Fatal("it differs from itself")
		}
	}
}
