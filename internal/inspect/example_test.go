package inspect_test

import (
	"context"
	"fmt"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
)

// A pod waits since its claim names a class that nobody made.
func Example() {
	claim := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nic"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nic",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "hca", Count: 1}}}
	cluster := model.Cluster{
		Claims:  []resourceapi.ResourceClaim{claim},
		Classes: []resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "hca.rdma.dev"}}},
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trainer"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "nic", ResourceClaimName: &claim.Name}}
	pod.Status.Phase = corev1.PodPending

	answer, err := why.Explain(context.Background(), &cluster, why.Question{Pod: pod})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Verdict)
	if err := answer.WriteText(os.Stdout, false); err != nil {
		log.Fatal(err)
	}
	// Output:
	// broken
	// Pod default/trainer is Pending: DeviceClass hca, of request nic, does not exist.
	//
	// Claim nic is Pending
	//   Request nic wants 1 of hca: the class does not exist
	//
	// Found:
	//   - DeviceClass hca, of request nic, does not exist
	//     install the driver of its devices, which brings the class, or name one of: hca.rdma.dev
}
