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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
)

// release is an installed chart, with its test pod.
type release struct {
	Drivers                    appsv1.DaemonSet
	Slice                      resourceapi.ResourceSlice
	Test                       appsv1.ReplicaSet
	Earlier, Succeeded, Failed corev1.Pod
}

// TestInstallCheck: the check waits until the test pod has ended, and counts no pod of an earlier test.
func TestInstallCheck(t *testing.T) {
	var in release
	patch.File(t, "testdata/install-check.yaml", &in)
	objects := []runtime.Object{&in.Drivers, &in.Slice, &in.Test, &in.Earlier}
	flags := installFlags{namespace: "rdma", drivers: "driver", test: "test", timeout: time.Minute}

	client := fake.NewClientset(objects...)
	reads := 0
	var out bytes.Buffer
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if reads++; reads == 2 {
			return false, nil, client.Tracker().Add(&in.Succeeded)
		}
		return false, nil, nil
	})
	test.NoError(t, flags.check(t.Context(), client, &out))
	test.Eq(t, 2, reads, test.Sprint("reads of the pods"))
	test.Eq(t, "ok: the driver is ready on 1 node\nok: 2 devices published on 1 node\n"+
		"ok: the test pod on node node1 has an HCA: uverbs0\n", out.String())

	out.Reset()
	client = fake.NewClientset(append(objects, &in.Failed)...)
	if err := flags.check(t.Context(), client, &out); err == nil || !strings.Contains(err.Error(), "no uverbs node") ||
		strings.Count(out.String(), "ok:") != 2 {
		t.Errorf("%v, %s", err, &out)
	}
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PodList{}, nil
	})
	test.ErrorContains(t, flags.check(t.Context(), client, &out), "it is not from the API server",
		test.Sprint("an empty answer"))
	flags.timeout = time.Nanosecond
	test.ErrorContains(t, flags.check(t.Context(), fake.NewClientset(objects...), &out), "cannot be created",
		test.Sprint("at the end of the time"))
	test.ErrorContains(t, flags.check(t.Context(), fake.NewClientset(), &out), "helm upgrade",
		test.Sprint("without a release"))
	code, _, stderr := invoke(t, nil, "install-check")
	if code != exitcode.Usage || !strings.Contains(stderr, "--replicaset") {
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
	if code != exitcode.Failed || !strings.Contains(stderr, "no uverbs node in /dev/infiniband") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("the termination log is not left to the kubelet")
	}
	if code, _, stderr := invoke(t, nil, "container-check", "--memlock", "much"); code != exitcode.Usage {
		t.Errorf("code %d, %s", code, stderr)
	}
}
