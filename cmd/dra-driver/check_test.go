package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestInstallCheck: the check waits until the test pod has ended, and counts no pod of an earlier test.
func TestInstallCheck(t *testing.T) {
	meta := func(name string, owner types.UID) metav1.ObjectMeta {
		controller := true
		return metav1.ObjectMeta{Namespace: "rdma", Name: name, UID: types.UID("uid-of-" + name),
			OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &controller}}}
	}
	set := &appsv1.DaemonSet{ObjectMeta: meta("driver", "")}
	set.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, NumberReady: 1,
		UpdatedNumberScheduled: 1}
	node := "node1"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}}
	slice.Spec = resourceapi.ResourceSliceSpec{NodeName: &node, Devices: make([]resourceapi.Device, 2)}
	ended := func(name string, owner types.UID, code int32, message string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta(name, owner), Spec: corev1.PodSpec{NodeName: node}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}}}
		return p
	}
	objects := []runtime.Object{set, slice, &appsv1.ReplicaSet{ObjectMeta: meta("test", "")},
		ended("test-0", "uid-of-earlier", 0, "uverbs9")}
	flags := installFlags{namespace: "rdma", drivers: "driver", test: "test", timeout: time.Minute}

	client := fake.NewClientset(objects...)
	reads := 0
	var out bytes.Buffer
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if reads++; reads == 2 {
			return false, nil, client.Tracker().Add(ended("test-1", "uid-of-test", 0, "uverbs0\n"))
		}
		return false, nil, nil
	})
	if err := flags.check(t.Context(), client, &out); err != nil || reads != 2 {
		t.Errorf("%v after %d reads", err, reads)
	}
	if got, want := out.String(), "ok: the driver is ready on 1 node\nok: 2 devices published on 1 node\n"+
		"ok: the test pod on node node1 has an HCA: uverbs0\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}

	out.Reset()
	client = fake.NewClientset(append(objects, ended("test-1", "uid-of-test", 1, "no uverbs node"))...)
	if err := flags.check(t.Context(), client, &out); err == nil || !strings.Contains(err.Error(), "no uverbs node") ||
		strings.Count(out.String(), "ok:") != 2 {
		t.Errorf("%v, %s", err, &out)
	}
	flags.timeout = time.Nanosecond
	test.ErrorContains(t, flags.check(t.Context(), fake.NewClientset(objects...), &out), "cannot be created",
		test.Sprint("at the end of the time"))
	test.ErrorContains(t, flags.check(t.Context(), fake.NewClientset(), &out), "helm upgrade",
		test.Sprint("without a release"))
	code, _, stderr := invoke(t, nil, "install-check")
	if code != exitUsage || !strings.Contains(stderr, "--replicaset") {
		t.Errorf("without flags: code %d, %s", code, stderr)
	}
}

// TestContainerCheck: this process has no HCA of a claim.
func TestContainerCheck(t *testing.T) {
	if found, err := filepath.Glob("/dev/infiniband/uverbs*"); err != nil || len(found) > 0 {
		t.Skipf("this machine has HCAs: %v", found)
	}
	log := filepath.Join(t.TempDir(), "log")
	code, _, stderr := invoke(t, nil, "container-check", "--termination-log", log)
	if code != exitError || !strings.Contains(stderr, "no uverbs node in /dev/infiniband") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("the termination log is not left to the kubelet")
	}
	if code, _, stderr := invoke(t, nil, "container-check", "--memlock", "much"); code != exitUsage {
		t.Errorf("code %d, %s", code, stderr)
	}
}
