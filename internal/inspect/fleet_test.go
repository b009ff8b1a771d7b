package inspect_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/drain"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// busy is a cluster as of [full], with a running pod for each claim, and a driver's pod on each node.
func busy(t testing.TB, nodes int) *model.Cluster {
	c, _ := full(t, nodes)
	c.UserPods = []corev1.Pod{}
	for i := range c.Claims {
		claim := &c.Claims[i]
		pod := fleet.Pod(claim.Name)
		pod.Name = claim.Name + "-pod"
		if claim.Status.Allocation != nil {
			pod = fleet.Running(fleet.On(pod, claim.Status.Allocation.Devices.Results[0].Pool))
			claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
				{Resource: "pods", Name: pod.Name, UID: types.UID(pod.Name)},
			}
		}
		pod.UID = types.UID(pod.Name)
		c.UserPods = append(c.UserPods, pod)
	}
	for i := range c.Nodes {
		c.Pods = append(c.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "driver-" + c.Nodes[i].Name, Namespace: "dra-driver-rdma",
				Labels:          map[string]string{"app.kubernetes.io/name": "dra-driver-rdma"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: c.Nodes[i].Name, ServiceAccountName: "dra-driver-rdma"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			}},
		})
	}
	c.Nodes = nil // status does not read them
	return c
}

// TestNodesWithoutSlices: a ready driver has published what there is, and its event says why that is nothing. Somebody
// else's event does not.
func TestNodesWithoutSlices(t *testing.T) {
	said := func(kind, component, host string, age time.Duration, message string) corev1.Event {
		return corev1.Event{
			Reason: model.NothingPublished, Type: kind, Message: message, LastTimestamp: metav1.NewTime(time.Now().Add(-age)),
			Source:         corev1.EventSource{Component: component, Host: host},
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node0000"},
		}
	}
	for _, tc := range []struct {
		name, word, why string
		change          func(*model.Cluster)
	}{
		{"not yet", "NotReady", "", func(c *model.Cluster) { c.Pods[0].Status.Conditions = nil }},
		{
			"not seen", "NothingPublished",
			"not seen: kubectl -n dra-driver-rdma exec driver-node0000 -- dra-driver status", func(*model.Cluster) {},
		},
		{"no HCA", "NoHCA", `"no device"`, func(c *model.Cluster) {
			c.Events = []corev1.Event{said("Normal", "rdma.dev", "node0000", 0, "no device"), said("Warning", "rdma.dev", "node0000", time.Hour, "exclusive")}
		}},
		{"refused", "NothingPublished", `"exclusive"`, func(c *model.Cluster) {
			c.Events = []corev1.Event{said("Warning", "rdma.dev", "node0000", 0, "exclusive")}
		}},
		{"by another", "NothingPublished", "not seen: ", func(c *model.Cluster) {
			c.Events = []corev1.Event{said("Normal", "rdma.dev", "node0001", 0, "x"), said("Normal", "kubelet", "node0000", 0, "y")}
		}},
		{"unread", "Unknown", "ResourceSlices were not read", func(c *model.Cluster) {
			c.Unread = model.UnreadKinds{{Kind: model.Slices, Why: "resourceslices is forbidden"}}
		}},
	} {
		c := busy(t, 1)
		c.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node0000"}}}
		c.Slices = nil
		tc.change(c)
		nodes, err := lists.Nodes(t.Context(), c)
		if err != nil || len(nodes) != 1 || !strings.HasPrefix(nodes[0].Why, tc.why) || tc.why == "" && nodes[0].Why != "" {
			t.Errorf("%s: %+v, %v; want %q", tc.name, nodes, err, tc.why)
		}
		if got := lists.FleetOf(c, nil).Drivers; got[tc.word] != 1 {
			t.Errorf("%s: the fleet has %v, want %s", tc.name, got, tc.word)
		}
	}
}

// TestFleet: every node, HCA and pod is counted once.
func TestFleet(t *testing.T) {
	c := busy(t, 30)
	plan, err := drain.NewPlan(c, "node0003", nil, resourceapi.DeviceTaintEffectNoSchedule, "")
	must.NoError(t, err)
	c.Rules = plan.Rules
	at := slices.IndexFunc(c.Slices, func(s resourceapi.ResourceSlice) bool { return s.Spec.Driver == "rdma.dev" })
	c.Slices[at].Spec.Devices[0].Taints = []resourceapi.DeviceTaint{
		{Key: "rdma.dev/port-down", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}
	c.Minor = 35
	c.Slices[at].Spec.Devices[1].Attributes[rdma.AttributeShared] = resourceapi.DeviceAttribute{BoolValue: new(true)}
	c.Pods[5].Status.Conditions[0].Status = corev1.ConditionFalse
	c.Pods = append(c.Pods[:7], c.Pods[8:]...)
	pods := lists.Pods(context.Background(), c)
	var out strings.Builder
	must.NoError(t, lists.FleetOf(c, pods).WriteText(&out))
	const want = "30 nodes: driver on 28 Ready, 1 Missing, 1 NotReady\n270 HCAs: 9 drained, 1 failed\n" +
		"271 pods: 10 with a problem, 1 waiting\n" +
		"Note: the API server lacks shares (feature gate DRAConsumableCapacity, off by default in Kubernetes 1.35): " +
		"each shared HCA is for one claim at a time\n"
	test.Eq(t, want, out.String(), test.Sprintf("%swant", &out))
}

// TestFleetLooks: each sum of a cluster is "?" if one of its looks failed. A sum without looks fails here.
func TestFleetLooks(t *testing.T) {
	looks := map[string][]model.Kind{
		"Nodes": {model.Slices, model.Pods, model.Classes}, "Pods": {model.UserPods}, "HCAs": {model.Slices},
		"Drained": {model.Slices, model.Rules}, "Failed": {model.Slices}, "Waiting": {model.UserPods},
		"Impaired": {model.UserPods, model.Slices, model.Rules, model.Events, model.Pods, model.Classes},
		"Lacks":    {model.Slices},
		"Drivers":  {model.Slices, model.Pods, model.Classes}, // how many are Ready
	}
	for field := range reflect.TypeFor[lists.Fleet]().Fields() {
		test.MapContainsKey(t, looks, field.Name)
		for _, kind := range looks[field.Name] {
			c := busy(t, 1)
			switch kind {
			case model.Pods:
				c.Pods = nil
			case model.Classes: // which say in which namespace the driver is
				c.Pods[0].Namespace = "fabric"
			}
			c.Unread = model.UnreadKinds{{Kind: kind, Why: string(kind) + " is forbidden"}}
			sums := lists.FleetOf(c, lists.Pods(t.Context(), c))
			sum := reflect.ValueOf(sums).Elem().FieldByIndex(field.Index)
			if sum.Kind() == reflect.Map {
				test.MapEq(t, map[string]int{"Unknown": 1}, sums.Drivers, test.Sprintf("without %s", kind))
			} else if !sum.IsNil() {
				t.Errorf("without %s, %s is %d", kind, field.Name, sum.Elem().Int())
			}
		}
	}
}

// BenchmarkStatus is kubectl rdma status -A, without the network. Time and memory of ten times the nodes are to be ten
// times as much.
func BenchmarkStatus(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			c := busy(b, nodes)
			b.ReportAllocs()
			for b.Loop() {
				pods := lists.Pods(context.Background(), c)
				lists.FleetOf(c, pods)
				lists.Drains(c)
			}
		})
	}
}

// BenchmarkDrain is the plan of kubectl rdma drain.
func BenchmarkDrain(b *testing.B) {
	c := busy(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := drain.NewPlan(c, "node0500", nil, resourceapi.DeviceTaintEffectNoSchedule, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFleetIsLinear: ten times the nodes cost ten times as much, and not a hundred times.
func TestFleetIsLinear(t *testing.T) {
	cost := func(nodes int) float64 {
		c := busy(t, nodes)
		return testing.AllocsPerRun(1, func() { lists.FleetOf(c, lists.Pods(context.Background(), c)) })
	}
	if few, many := cost(10), cost(100); many > 12*few {
		t.Errorf("%.0f allocations for 10 nodes, %.0f for 100", few, many)
	}
}
