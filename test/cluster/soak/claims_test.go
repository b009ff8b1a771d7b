package soak

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

// What becomes of a claim, by the hands of its user, of the scheduler, and of the controller
// of claims.

// Allocate implements soak.Server: a user makes a claim that only the wanted devices satisfy,
// and a pod with it; the scheduler allocates it, and reserves it for the pod. The scheduler
// has a bug, or an old view of the slices, where its allocator cannot give these devices.
func (s *server) Allocate(claim *resourceapi.ResourceClaim) {
	s.t.Helper()
	wanted := claim.Status.Allocation
	published := map[string]resourceapi.Device{}
	var objects []*resourceapi.ResourceSlice
	for _, slice := range s.Slices() {
		objects = append(objects, &slice)
		for _, d := range slice.Spec.Devices {
			published[d.Name] = d
		}
	}
	s.scheduler.Store("rdma.dev", objects)
	spec := request(wanted.Devices.Results, published)
	allocation := s.allocate(claim.Name, spec, wanted.Devices.Results, published)
	if allocation == nil {
		allocation = wanted
		s.forced++
	}
	s.create(claim, spec, allocation)
	s.scheduler.Claims[claim.Name] = claim
}

// request is what a user writes to get just these devices, whatever is wrong with them.
func request(wanted []resourceapi.DeviceRequestAllocationResult, published map[string]resourceapi.Device) resourceapi.DeviceClaim {
	var requests []controlplane.Request
	for _, r := range wanted {
		class := "hca.rdma.dev"
		if strings.HasPrefix(r.Device, "shared-") {
			class = "shared." + class
		}
		address := "gone"
		if a := published[r.Device].Attributes["resource.kubernetes.io/pciBusID"]; a.StringValue != nil {
			address = *a.StringValue
		}
		requests = append(requests, controlplane.Want(r.Request, class, fmt.Sprintf(`device.attributes["resource.kubernetes.io"].pciBusID == %q`, address)))
	}
	devices := controlplane.Claim(requests...)
	for i := range devices.Requests {
		devices.Requests[i].Exactly.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	}
	return devices
}

// allocate asks the scheduler's allocator. It must give the devices if they are published and
// nobody has them, and it must not otherwise.
func (s *server) allocate(name string, devices resourceapi.DeviceClaim, wanted []resourceapi.DeviceRequestAllocationResult, published map[string]resourceapi.Device) *resourceapi.AllocationResult {
	s.t.Helper()
	free := !slices.ContainsFunc(wanted, func(r resourceapi.DeviceRequestAllocationResult) bool {
		_, there := published[r.Device]
		return !there || s.taken(r)
	})
	got, err := s.scheduler.TryAllocate(name, devices)
	must.NoError(s.t, err, must.Sprintf("allocate claim %s", name))
	test.Eq(s.t, (got != nil), free,
		test.Sprintf("claim %s for %v is allocated: %v; the devices are free", name, names(wanted), got != nil))
	if got == nil {
		return nil
	}
	test.SliceEqOp(s.t, names(wanted), names(got), test.Sprintf("claim %s", name))
	s.allocated++
	return s.scheduler.Claims[name].Status.Allocation
}

// taken reports whether another claim has a device that is not shared.
func (s *server) taken(r resourceapi.DeviceRequestAllocationResult) bool {
	for _, claim := range s.scheduler.Claims {
		if r.ShareID == nil && slices.Contains(names(claim.Status.Allocation.Devices.Results), r.Device) {
			return true
		}
	}
	return false
}

func names(results []resourceapi.DeviceRequestAllocationResult) []string {
	var out []string
	for _, r := range results {
		out = append(out, r.Device)
	}
	return out
}

// create makes a claim and its pod, and allocates it in the scheduler's two requests.
func (s *server) create(claim *resourceapi.ResourceClaim, devices resourceapi.DeviceClaim, allocation *resourceapi.AllocationResult) {
	s.t.Helper()
	ctx, claims := s.t.Context(), s.client.ResourceV1().ResourceClaims(claim.Namespace)
	object := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}, Spec: resourceapi.ResourceClaimSpec{Devices: devices}}
	object, err := claims.Create(ctx, object, metav1.CreateOptions{})
	must.NoError(s.t, err)
	pod, err := s.client.CoreV1().Pods(claim.Namespace).Create(ctx, userPod(claim.Name), metav1.CreateOptions{})
	must.NoError(s.t, err)
	yes := true
	object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes}}
	object.Finalizers = append(object.Finalizers, resourceapi.Finalizer)
	if object, err = claims.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	object.Status.Allocation = allocation
	object.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if object, err = claims.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	object.DeepCopyInto(claim)
}

// userPod is a pod on the node that uses a claim.
func userPod(claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec: corev1.PodSpec{
			NodeName:       drivertest.NodeName,
			ResourceClaims: []corev1.PodResourceClaim{{Name: "hca", ResourceClaimName: &claim}},
			Containers: []corev1.Container{{
				Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "hca"}}},
			}},
		},
	}
}

// Deallocate implements soak.Server: the pod is deleted by force.
func (s *server) Deallocate(claim *resourceapi.ResourceClaim, elsewhere bool) {
	s.t.Helper()
	s.scheduler.Release(claim.Name)
	ctx, claims := s.t.Context(), s.client.ResourceV1().ResourceClaims(claim.Namespace)
	must.NoError(s.t, s.client.CoreV1().Pods(claim.Namespace).Delete(ctx, claim.Name, *metav1.NewDeleteOptions(0)))
	steps := []resourceapi.ResourceClaimStatus{{}}
	if elsewhere {
		steps = append(steps, drivertest.Elsewhere(claim).Status)
	}
	for _, status := range steps {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the driver writes the status, too
			object, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			object.Status = status
			_, err = claims.UpdateStatus(ctx, object, metav1.UpdateOptions{})
			return err
		})
		must.NoError(s.t, err)
	}
}

// RemoveClaim implements soak.Server: the pod and the claim are deleted, and as no pod uses
// the claim any more, the controller of claims deallocates it and lets it go.
func (s *server) RemoveClaim(claim *resourceapi.ResourceClaim) {
	s.t.Helper()
	s.scheduler.Release(claim.Name)
	ctx, claims := s.t.Context(), s.client.ResourceV1().ResourceClaims(claim.Namespace)
	if err := s.client.CoreV1().Pods(claim.Namespace).Delete(ctx, claim.Name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	err := claims.Delete(ctx, claim.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return // a claim that nobody made
	}
	must.NoError(s.t, err)
	// The driver writes the status, too.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Status.Allocation, object.Status.ReservedFor = nil, nil
		if object, err = claims.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
			return err
		}
		object.Finalizers = nil
		_, err = claims.Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
	must.NoError(s.t, err)
}
