package inspect_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// tracked returns the slices that the scheduler's tracker makes of slices and rules, by name.
func tracked(
	t testing.TB, slices []resourceapi.ResourceSlice, rules []resourceapi.DeviceTaintRule,
) map[string]*resourceapi.ResourceSlice {
	t.Helper()
	var objects []runtime.Object
	for i := range slices {
		objects = append(objects, slices[i].DeepCopy())
	}
	for i := range rules {
		objects = append(objects, rules[i].DeepCopy())
	}
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	typed := factory.Resource().V1()
	tr, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, SliceInformer: typed.ResourceSlices(), TaintInformer: typed.DeviceTaintRules(),
	})
	must.NoError(t, err)
	defer tr.Stop()
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	<-tr.HasSyncedChecker().Done()
	list, err := tr.ListPatchedResourceSlices()
	must.NoError(t, err)
	out := map[string]*resourceapi.ResourceSlice{}
	for _, s := range list {
		out[s.Name] = s
	}
	return out
}

// TestWithRules: withRules does to slices what the scheduler's tracker does, for each combination of a selector's
// fields, and leaves its input alone.
func TestWithRules(t *testing.T) {
	var all []resourceapi.ResourceSlice
	for _, id := range [][2]string{{"rdma.dev", "node1"}, {"rdma.dev", "node2"}, {"gpu.example.com", "node1"}} {
		s := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: id[0] + "-" + id[1]}}
		s.Spec.Driver, s.Spec.Pool.Name = id[0], id[1]
		s.Spec.Devices = []resourceapi.Device{{Name: "a"}, {Name: "b", Taints: []resourceapi.DeviceTaint{{Key: "own"}}}}
		all = append(all, s)
	}
	var rules []resourceapi.DeviceTaintRule
	add := func(selector *resourceapi.DeviceTaintSelector) {
		rule := resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rule-%02d", len(rules))}}
		rule.Spec.DeviceSelector = selector
		rule.Spec.Taint = resourceapi.DeviceTaint{Key: rule.Name, Effect: resourceapi.DeviceTaintEffectNoExecute}
		rules = append(rules, rule)
	}
	add(nil)
	for _, driver := range []*string{nil, new("rdma.dev"), new("none")} {
		for _, pool := range []*string{nil, new("node1"), new("none")} {
			for _, device := range []*string{nil, new("b"), new("none")} {
				add(&resourceapi.DeviceTaintSelector{Driver: driver, Pool: pool, Device: device})
			}
		}
	}
	want := tracked(t, all, rules)
	before := slices.Clone(all)
	for i := range all {
		all[i].DeepCopyInto(&before[i])
	}
	for _, got := range (&model.Cluster{Slices: all, Rules: rules}).View().Slices {
		for j := range got.Spec.Devices {
			if g, w := keys(got.Spec.Devices[j].Taints), keys(want[got.Name].Spec.Devices[j].Taints); !reflect.DeepEqual(g, w) {
				t.Errorf("slice %s, device %d: taints %q, and the tracker has %q", got.Name, j, g, w)
			}
		}
	}
	test.True(t, reflect.DeepEqual(before, all), test.Sprint("the slices have changed"))
}

// keys sorts the keys of taints. The tracker adds those of rules in no certain order.
func keys(taints []resourceapi.DeviceTaint) (out []string) {
	for _, t := range taints {
		out = append(out, t.Key)
	}
	slices.Sort(out)
	return out
}
