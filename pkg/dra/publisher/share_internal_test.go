package publisher

import (
	"reflect"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// TestShare: of a slice that is as wanted only one copy of the attributes stays, also in what the
// watch has told; a newer word of the server is not lost.
func TestShare(t *testing.T) {
	attributes := func() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"ibdev": {StringValue: new("mlx5_0")}}
	}
	slice := func(version string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: version}, Spec: resourceapi.ResourceSliceSpec{
			Devices: []resourceapi.Device{{Name: "d", Attributes: attributes()}},
		}}
	}
	for version, shared := range map[string]bool{"1": true, "2": false} {
		m := newMirror()
		m.slices = map[string]*resourceapi.ResourceSlice{"s": slice(version)}
		devices := []resourceapi.Device{{Name: "d", Attributes: attributes()}}
		r := &pass{publisher: &Publisher{server: m}, wanted: []resourceslice.Slice{{Devices: devices}}}
		got := r.share(0, slice("1"))
		same := func(s *resourceapi.ResourceSlice) bool {
			return reflect.ValueOf(s.Spec.Devices[0].Attributes).Pointer() == reflect.ValueOf(r.wanted[0].Devices[0].Attributes).Pointer()
		}
		test.True(t, same(got) && same(m.latest()["s"]) == shared && m.latest()["s"].ResourceVersion == version,
			test.Sprintf("with version %s at the server: attributes are shared: %v, in the mirror: %v, want %v there",
				version, same(got), same(m.latest()["s"]), shared))
	}
}
