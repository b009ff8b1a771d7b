package report

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
)

var claimResource = resourceapi.Resource("resourceclaims")

// getClaim returns the claim with a UID, nil if the API server says that it no longer exists. Another claim may have its
// name now.
func getClaim(
	ctx context.Context, client kubernetes.Interface, namespace, name string, uid types.UID,
) (*resourceapi.ResourceClaim, error) {
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = answer.About(claim, namespace, name)
	}
	switch {
	case answer.Gone(err, claimResource, name):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get claim %s/%s: %w", namespace, name, err)
	case claim.UID != uid:
		return nil, nil
	}
	return claim, nil
}
