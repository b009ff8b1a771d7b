package drain

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
)

// Drain and Undrain are what the user must be allowed to do, in all namespaces.
var (
	Drain = []Right{
		{string(collect.Slices), "list"}, {string(collect.Claims), "list"}, {string(collect.Rules), "list"},
		{string(collect.Rules), "get"}, {string(collect.Rules), "create"}, {string(collect.Rules), "update"},
		{string(collect.Rules), "delete"},
	}
	Undrain = []Right{
		{string(collect.Slices), "list"}, {string(collect.Rules), "list"}, {string(collect.Rules), "delete"},
	}
)

// Right is a verb on a resource of the API group resource.k8s.io.
type Right struct{ Resource, Verb string }

// Check returns an error that names every missing right.
func Check(ctx context.Context, client kubernetes.Interface, rights []Right) error {
	var asked []authorizationv1.ResourceAttributes
	for _, r := range rights {
		asked = append(asked, authorizationv1.ResourceAttributes{
			Group: resourceapi.GroupName, Resource: r.Resource, Verb: r.Verb,
		})
	}
	missing, err := Missing(ctx, client, asked)
	if err != nil {
		return err
	}
	if missing != nil {
		return fmt.Errorf("you may not %s (resource.k8s.io) in this cluster, and nothing was changed: "+
			"ask an administrator for the chart's ClusterRole of operators (accessRoles.create)", strings.Join(missing, ", "))
	}
	return nil
}

// Missing returns those of rights that the user lacks, as VERB RESOURCE.
func Missing(ctx context.Context, client kubernetes.Interface,
	rights []authorizationv1.ResourceAttributes) (missing []string, _ error) {
	for i := range rights {
		r := &rights[i]
		name := r.Verb + " " + r.Resource
		if r.Subresource != "" {
			name += "/" + r.Subresource
		}
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r},
		}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask the API server for the right to %s: %w", name, err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// maxAuthor bounds the name of a user in an annotation.
const maxAuthor = 256

// Author returns the API server's name of the user, "" if it does not say.
func Author(ctx context.Context, client kubernetes.Interface) string {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return "" // an aid only
	}
	return text.Bound(review.Status.UserInfo.Username, maxAuthor)
}
