package traffic

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// objects is an API server in memory that gives each object a UID, runs pods but for those of the node lazy, and deletes
// what a deleted Job owns, as the garbage collector does.
type objects struct {
	*fake.Clientset
	before func(verb, resource string) // each write
}

func newObjects() *objects {
	o := &objects{Clientset: fake.NewClientset(), before: func(string, string) {}}
	o.PrependReactor("*", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		if verb := a.GetVerb(); verb != "list" && verb != "get" && verb != "watch" {
			o.before(verb, a.GetResource().Resource)
		}
		create, ok := a.(ktesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		switch object := create.GetObject().(type) {
		case *batchv1.Job:
			object.Name, object.UID = object.GenerateName+"x", "job"
		case *corev1.Pod:
			node := object.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].
				MatchFields[0].Values[0]
			if node == "lazy" {
				object.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available",
				}}}
				break
			}
			object.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			}}
		}
		return false, nil, nil
	})
	o.PrependReactor("delete", "jobs", func(a ktesting.Action) (bool, runtime.Object, error) {
		for _, resource := range []string{"pods", "resourceclaims"} {
			for _, of := range o.owned("job")[resource] {
				gvr := corev1.SchemeGroupVersion.WithResource(resource)
				if resource == "resourceclaims" {
					gvr = resourceapi.SchemeGroupVersion.WithResource(resource)
				}
				if err := o.Tracker().Delete(gvr, a.GetNamespace(), of); err != nil {
					return true, nil, err
				}
			}
		}
		return false, nil, nil
	})
	return o
}

// owned returns the names of the pods and claims that an object owns, by resource.
func (o *objects) owned(by types.UID) map[string][]string {
	out := map[string][]string{}
	add := func(resource string, m metav1.ObjectMeta) {
		for _, owner := range m.OwnerReferences {
			if owner.UID == by && owner.Kind == "Job" && owner.APIVersion == "batch/v1" {
				out[resource] = append(out[resource], m.Name)
			}
		}
	}
	pods, _ := o.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), "tests")
	for _, p := range pods.(*corev1.PodList).Items {
		add("pods", p.ObjectMeta)
	}
	claims, _ := o.Tracker().List(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"),
		resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), "tests")
	for _, c := range claims.(*resourceapi.ResourceClaimList).Items {
		add("resourceclaims", c.ObjectMeta)
	}
	return out
}

// left counts all pods, claims and Jobs.
func (o *objects) left(t *testing.T) (n int) {
	t.Helper()
	pods, err := o.CoreV1().Pods("tests").List(context.Background(), metav1.ListOptions{})
	must.NoError(t, err)
	claims, err := o.ResourceV1().ResourceClaims("tests").List(context.Background(), metav1.ListOptions{})
	must.NoError(t, err)
	jobs, err := o.BatchV1().Jobs("tests").List(context.Background(), metav1.ListOptions{})
	must.NoError(t, err)
	return len(pods.Items) + len(claims.Items) + len(jobs.Items)
}

// TestStart: each node gets one pod and one claim with a request for each HCA, all owned by a Job that runs no pods and
// has a deadline that moves. A node whose pod does not run is left out, with the reason.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObjects()
		c := &Cluster{Client: o, Namespace: "tests", Image: "image"}
		hcas := append(machines(2, 3, true), model.HCA{Node: "lazy", Name: "pci-0", IBDev: "mlx5_0"})
		ready, leftOut, err := c.Start(t.Context(), hcas, time.Minute)
		must.NoError(t, err)
		if len(ready) != 6 || len(leftOut) != 1 || !strings.Contains(leftOut[0].Busy, "0/1 nodes are available") {
			t.Errorf("ready %v, left out %v", ready, leftOut)
		}
		owned := o.owned("job")
		if len(owned["pods"]) != 3 || len(owned["resourceclaims"]) != 3 || o.left(t) != 7 {
			t.Errorf("the Job owns %v of %d objects", owned, o.left(t))
		}
		job, err := o.BatchV1().Jobs("tests").Get(t.Context(), "rdma-test-x", metav1.GetOptions{})
		if err != nil || *job.Spec.Parallelism != 0 || job.Spec.Suspend != nil || *job.Spec.TTLSecondsAfterFinished != 0 ||
			*job.Spec.ActiveDeadlineSeconds != 180 {
			t.Errorf("%+v, %v", job, err)
		}
		claim, err := o.ResourceV1().ResourceClaims("tests").Get(t.Context(), "rdma-test-x-1", metav1.GetOptions{})
		if err != nil || len(claim.Spec.Devices.Requests) != 3 || claim.Spec.Devices.Requests[2].Exactly.DeviceClassName != "hca.rdma.dev" {
			t.Errorf("%+v, %v", claim, err)
		}
		test.NoError(t, c.Renew(t.Context(), 70*time.Second))
		job, err = o.BatchV1().Jobs("tests").Get(t.Context(), "rdma-test-x", metav1.GetOptions{})
		if err != nil || *job.Spec.ActiveDeadlineSeconds != 60+70+120 { // it waited a minute for lazy
			t.Errorf("%d s, %v", *job.Spec.ActiveDeadlineSeconds, err)
		}
		if err := c.Stop(t.Context()); err != nil || o.left(t) != 0 {
			t.Errorf("%d objects are left, %v", o.left(t), err)
		}
		test.Error(t, c.Renew(t.Context(), time.Second), test.Sprint("a deadline of a Job that is gone was moved"))
	})
}

// TestStranger: an empty answer that is not from the API server means neither that the test's objects are gone, nor
// that there are no results.
func TestStranger(t *testing.T) {
	o := newObjects()
	c := &Cluster{Client: o, Namespace: "tests", Image: "image"}
	for _, kind := range []string{"pods", "configmaps"} {
		o.PrependReactor("list", kind, func(ktesting.Action) (bool, runtime.Object, error) {
			return true, map[string]runtime.Object{"pods": &corev1.PodList{}, "configmaps": &corev1.ConfigMapList{}}[kind], nil
		})
	}
	c.job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "rdma-test-x"}}
	_, err := c.list(t.Context())
	test.ErrorContains(t, err, "it is not from the API server")
	_, _, err = ReadRecords(t.Context(), o, "tests")
	test.ErrorContains(t, err, "it is not from the API server")
}

// TestImageOf: a release has its own image, and another build none.
func TestImageOf(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "ghcr.io/rdma-dev/rdma-perftest:v1.2.3", "v1.2.3-rc.1": "ghcr.io/rdma-dev/rdma-perftest:v1.2.3-rc.1",
		"devel": "", "": "", "v1.2.3-4-gabcdef0": "", "v1.2.3-dirty": "", "v1.2.3+dirty": "", "1.2.3": "",
		"v0.0.0-20260101000000-abcdefabcdef": "",
	} {
		test.Eq(t, want, ImageOf(version), test.Sprintf("%q", version))
	}
}

// TestAwaitLimited: the end of the patience is no error, even if the client's rate limiter knows it first. In the same
// case, Stop names pods that stay.
func TestAwaitLimited(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/pods"):
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
				{"metadata": {"name": "p"}, "status": {"phase": "Pending"}}]}`)
		case r.Method == http.MethodDelete:
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
		default:
			fmt.Fprint(w, `{"kind": "ResourceClaimList", "apiVersion": "resource.k8s.io/v1",
				"metadata": {"resourceVersion": "1"}, "items": []}`)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 2, Burst: 1})
	must.NoError(t, err)
	c := &Cluster{
		Client: client, Namespace: "tests", job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", UID: "u"}},
		pods: map[string]string{"node": "p"},
	}
	why, err := c.await(t.Context(), lookEvery+lookEvery/10)
	if err != nil || !strings.Contains(why["node"], "the test's pod is Pending") {
		t.Errorf("await: %v, %v", why, err)
	}
	err = c.stop(t.Context(), lookEvery*5)
	test.ErrorContains(t, err, "1 pod and 0 claims are still there", test.Sprint("stop"))
}

// TestStopInterrupted: interrupted before any write, and at 20 random moments, nothing is left. And killed there, all
// that is there belongs to the Job.
func TestStopInterrupted(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	o := newObjects()
	for run := range 40 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			writes, end := 0, run
			if run >= 20 {
				end = -1
				time.AfterFunc(time.Duration(random.IntN(70))*time.Second, cancel)
			}
			o.before = func(string, string) {
				if writes == end {
					cancel()
				}
				writes++
			}
			c := &Cluster{Client: o, Namespace: "tests", Image: "image"}
			hcas := append(machines(8, 2, true), model.HCA{Node: "lazy", Name: "pci-0", IBDev: "mlx5_0"})
			_, _, err := c.Start(ctx, hcas, time.Minute)
			if run < 18 && err == nil {
				t.Errorf("run %d: interrupted at write %d, it goes on", run, end)
			}
			if owned := o.owned("job"); len(owned["pods"])+len(owned["resourceclaims"])+1 < o.left(t) {
				t.Errorf("run %d: of %d objects the Job owns %v", run, o.left(t), owned)
			}
			if err := c.Stop(ctx); err != nil || o.left(t) != 0 {
				t.Errorf("run %d: %d objects are left, %v", run, o.left(t), err)
			}
		})
	}
}

// TestSave: a result replaces an earlier one of its node, and no other ConfigMap.
func TestSave(t *testing.T) {
	o := newObjects()
	c := &Cluster{Client: o, Namespace: "tests"}
	for _, state := range []State{Slow, Good} {
		r := &Record{Node: "n0", Time: time.Unix(0, 0).UTC(), HCAs: []Verdict{{HCA: model.HCA{Name: "pci-0"}, State: state}}}
		must.NoError(t, c.Save(t.Context(), r))
	}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "rdma-test.n1", Namespace: "tests"}, Data: map[string]string{"a": "b"}}
	if _, err := o.CoreV1().ConfigMaps("tests").Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	test.ErrorContains(t, c.Save(t.Context(), &Record{Node: "n1"}), "stays as it is",
		test.Sprint("a foreign ConfigMap"))
	broken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "rdma-test.n2", Namespace: "tests", Labels: map[string]string{Label: labelResults}}}
	if _, err := o.CoreV1().ConfigMaps("tests").Create(t.Context(), broken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	records, unread, err := ReadRecords(t.Context(), o, "tests")
	if err != nil || len(records) != 1 || records["n0"].HCAs[0].State != Good || len(unread) != 1 ||
		!strings.Contains(fmt.Sprint(unread), "tests/rdma-test.n2") {
		t.Errorf("%v, %v, %v", maps.Collect(maps.All(records)), unread, err)
	}
}

// transport answers the requests of a client.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestStartInterrupted: an interruption does not cut the request that makes the Job, so Stop knows the Job.
func TestStartInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var requests []string
	interrupting := transport(func(r *http.Request) (*http.Response, error) {
		requests = append(requests, r.Method+" "+path.Base(r.URL.Path))
		cancel()
		answer := httptest.NewRecorder()
		answer.Header().Set("Content-Type", "application/json")
		fmt.Fprint(answer, `{"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "job", "uid": "u"}}`)
		return answer.Result(), r.Context().Err()
	})
	client, err := kubernetes.NewForConfig(&rest.Config{Transport: interrupting})
	must.NoError(t, err)
	c := &Cluster{Client: client, Namespace: "tests"}
	_, _, err = c.Start(ctx, machines(1, 1, true), time.Minute)
	must.Error(t, err)
	_ = c.Stop(ctx) // it reads pods and claims, and the transport knows none
	test.SliceContains(t, requests, "DELETE job")
}
