package installcheck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kube/installcheck"
)

// working returns the state of a release that works. It has two nodes, and only b has devices.
func working() installcheck.State {
	s := installcheck.State{
		Drivers:    &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "rdma", Name: "driver"}},
		DriverPods: []corev1.Pod{pod("driver-a", "a", running(true)), pod("driver-b", "b", running(true))},
		Slices:     []resourceapi.ResourceSlice{slice("a", 0), slice("b", 2), slice("b", 1)},
		Test:       &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "rdma", Name: "test"}},
		TestPods:   []corev1.Pod{pod("test-1", "b", ended(0, "uverbs0, locked memory unlimited\n"))},
	}
	s.Drivers.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, NumberReady: 2,
		UpdatedNumberScheduled: 2}
	return s
}

func pod(name, node string, c corev1.ContainerStatus) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "rdma", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Phase, p.Status.ContainerStatuses = corev1.PodPending, []corev1.ContainerStatus{c}
	if c.Ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func running(ready bool) corev1.ContainerStatus { return corev1.ContainerStatus{Ready: ready} }

func waiting(reason, message string) (c corev1.ContainerStatus) {
	c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	return c
}

// ended is a container that the kubelet is about to start again.
func ended(code int32, message string) corev1.ContainerStatus {
	c := waiting("CrashLoopBackOff", "back-off")
	ended := &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: message}
	c.LastTerminationState.Terminated = ended
	return c
}

func slice(node string, devices int) (s resourceapi.ResourceSlice) {
	s.Spec.NodeName, s.Spec.Devices = &node, make([]resourceapi.Device, devices)
	return s
}

func warning(object, message string) (e corev1.Event) {
	e.InvolvedObject.Name, e.Message = object, message
	return e
}

func TestJudge(t *testing.T) {
	unschedulable := pod("test-1", "", corev1.ContainerStatus{})
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "0/2 nodes are available: 2 cannot allocate all claims."}}
	for name, c := range map[string]struct {
		change  func(*installcheck.State)
		works   int
		problem string // all of its words, "" for none
		final   bool
	}{
		"works": {func(*installcheck.State) {}, 3, "", true},
		"a DaemonSet that nobody has read": {func(s *installcheck.State) { s.Drivers.Generation = 1 }, 0,
			"kube-controller-manager", false},
		"no node": {func(s *installcheck.State) { s.Drivers.Status = appsv1.DaemonSetStatus{} }, 0,
			"no node runs the driver|nodeSelector", false},
		"refused drivers": {func(s *installcheck.State) {
			s.Drivers.Status.CurrentNumberScheduled = 1
			s.Warnings = []corev1.Event{warning("other", "no"), warning("driver", "violates PodSecurity")}
		}, 0, "rdma/driver has pods on 1 of 2 nodes: \"violates PodSecurity\";|enforce=privileged", false},
		"a driver that crashes": {func(s *installcheck.State) {
			s.Drivers.Status.NumberReady = 1
			s.DriverPods[1] = pod("driver-b", "b", ended(2, "I1 started\ndra-driver: bad configuration\n"))
		}, 0, "ready on 1 of 2 nodes, not on b (exit code 2: \"bad configuration\")|logs driver-b", false},
		"no image": {func(s *installcheck.State) {
			s.Drivers.Status.NumberReady = 1
			s.DriverPods[0] = pod("driver-a", "a", waiting("ImagePullBackOff", ""))
		}, 0, "not on a (\"ImagePullBackOff\")", false},
		"a driver that is not registered": {func(s *installcheck.State) {
			s.Drivers.Status.NumberReady = 1
			s.DriverPods[0] = pod("driver-a", "a", running(false))
		}, 0, "not on a (pod driver-a is pending and not ready)", false},
		"old drivers": {func(s *installcheck.State) { s.Drivers.Status.UpdatedNumberScheduled = 1 }, 0,
			"an older driver runs on 1 of 2 nodes|rollout status", false},
		"no devices": {
			func(s *installcheck.State) { s.Slices = s.Slices[:1] }, 1, "publish no device|dra-driver status", false,
		},
		"no test pod": {func(s *installcheck.State) {
			s.TestPods, s.Warnings = nil, []corev1.Event{warning("test", "exceeded quota")}
		}, 2, "the test pod cannot be created: \"exceeded quota\"", false},
		"no free device": {func(s *installcheck.State) { s.TestPods = []corev1.Pod{unschedulable} }, 2,
			"the test pod is not scheduled|3 devices published on 1 node|2 cannot allocate all claims|kubectl rdma claims", false},
		"no scheduler": {func(s *installcheck.State) {
			s.TestPods = []corev1.Pod{pod("test-1", "", corev1.ContainerStatus{})}
		}, 2, "kube-scheduler", false},
		"a failing Prepare": {func(s *installcheck.State) {
			s.TestPods = []corev1.Pod{pod("test-1", "b", waiting("ContainerCreating", ""))}
			s.Warnings = []corev1.Event{warning("test-1", "Failed to prepare dynamic resources: disk full")}
		}, 2, "on node b does not start: \"Failed to prepare dynamic resources: disk full\"|logs driver-b", false},
		"a container without an HCA": {func(s *installcheck.State) {
			s.TestPods = []corev1.Pod{pod("test-1", "b", ended(1, "dra-driver: no uverbs node\n"))}
		}, 2, "on node b failed: \"no uverbs node\"", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := working()
			c.change(&s)
			got := installcheck.Judge(s)
			if (got.Problem == "") != (c.problem == "") || got.Final != c.final || len(got.Works) != c.works {
				t.Errorf("%+v, want final %t, %d that work", got, c.final, c.works)
			}
			for words := range strings.SplitSeq(c.problem, "|") {
				test.StrContains(t, got.Problem, words, test.Sprint("does not say"))
			}
		})
	}
}

func ExampleJudge() {
	for _, line := range installcheck.Judge(working()).Works {
		fmt.Println(line)
	}
	// Output:
	// the driver is ready on 2 nodes
	// 3 devices published on 1 node; none on a (dra-driver status in the driver there says why)
	// the test pod on node b has an HCA: uverbs0, locked memory unlimited
}
