package traffic

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// images is the name of the releases' images with perftest. packaging/dist.sh makes them.
const images = "ghcr.io/rdma-dev/rdma-perftest:"

var release = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// ImageOf returns the image of a version of this program, "" if that is no release.
func ImageOf(version string) string {
	if !release.MatchString(version) || strings.HasSuffix(version, "-dirty") {
		return ""
	}
	return images + version
}

// Rights are what a test needs in its namespace.
func Rights(namespace string) (out []authorizationv1.ResourceAttributes) {
	in := func(group, resource, subresource string, verbs ...string) {
		for _, verb := range verbs {
			out = append(out, authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: group, Resource: resource, Subresource: subresource, Verb: verb,
			})
		}
	}
	in(batchv1.GroupName, "jobs", "", "create", "patch", "delete")
	in("", "pods", "", "create", "list")
	in("", "pods", "exec", "create")
	in(resourceapi.GroupName, "resourceclaims", "", "create", "list")
	in("", "configmaps", "", "create", "get", "update")
	return out
}

// CheckRights returns an error that names the missing rights of a test.
func CheckRights(ctx context.Context, client kubernetes.Interface, namespace string) error {
	var missing []string
	for _, r := range Rights(namespace) {
		name := strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r},
		}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the API server for the right to %s: %w", name, err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return fmt.Errorf("you may not %s in namespace %s, and nothing was created: examples/test-nodes.yaml has a "+
			"Role for tests", strings.Join(missing, ", "), namespace)
	}
	return nil
}
