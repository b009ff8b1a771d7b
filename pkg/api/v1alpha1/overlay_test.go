package v1alpha1_test

import (
	"reflect"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// TestOverlay: each field that is set replaces the one below, and no other does.
func TestOverlay(t *testing.T) {
	checkOverlay(t, (*v1alpha1.Settings).Overlay)
	checkOverlay(t, (*v1alpha1.Allow).Overlay)
	s := v1alpha1.Settings{Network: v1alpha1.Network{IPAM: "rail"}}
	s.Overlay(v1alpha1.Settings{Network: v1alpha1.Network{Addresses: []string{"10.1.2.3/24"}}})
	test.Eq(t, v1alpha1.Network{Addresses: []string{"10.1.2.3/24"}}, s.Network)
	s.Overlay(v1alpha1.Settings{Network: v1alpha1.Network{IPAM: "rail"}})
	test.Eq(t, v1alpha1.Network{IPAM: "rail"}, s.Network)
}

func checkOverlay[T any](t *testing.T, overlay func(to *T, over T)) {
	t.Helper()
	var full, got, none T
	fill(t, reflect.ValueOf(&full).Elem())
	overlay(&got, full)
	test.True(t, reflect.DeepEqual(full, got), test.Sprintf("all fields are set: %+v, want %+v", got, full))
	overlay(&got, none)
	test.True(t, reflect.DeepEqual(full, got), test.Sprintf("no field is set: %+v, want %+v", got, full))
}

// fill sets each field of a struct, also of the structs within. Overlay cannot set unexported ones.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Field(i)
		must.True(t, f.CanSet(), must.Sprintf("field %s of %s cannot be set", v.Type().Field(i).Name, v.Type()))
		switch f.Kind() {
		case reflect.Struct:
			fill(t, f)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.String:
			f.SetString("x")
		default:
			t.Fatalf("field %s of %s: unknown kind %s", v.Type().Field(i).Name, v.Type(), f.Kind())
		}
	}
}
