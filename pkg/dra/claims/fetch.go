package claims

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
)

// The kubeletplugin library gets the claims of a NodePrepareResources call from the API server one after the other.
// client-go tries each request up to ten times at intervals of a second, without a time limit for a try. With five
// claims and a busy server this could exceed the 45 s after which the kubelet stops waiting, without a reason in its
// error. So the driver gets the claims of a call concurrently, before the library asks, and then gives them to the
// library.

// claimTime is the time limit of the API server for the claims of one call. It leaves time to prepare them, and is long
// enough for a restart of the server.
const claimTime = 10 * time.Second

// fetched are the claims of one call, by namespace and name.
type fetched map[types.NamespacedName]func() (*resourceapi.ResourceClaim, error)

type fetchedKey struct{}

// WithClaims starts to get claims and returns at once, with a context that has them. The caller must call the returned
// function, which ends the requests.
func WithClaims(
	ctx context.Context, client kubernetes.Interface, claims []*drapb.Claim,
) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(ctx, claimTime)
	all := fetched{}
	for _, c := range claims {
		name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		if all[name] == nil {
			get := sync.OnceValues(func() (*resourceapi.ResourceClaim, error) { return fetchClaim(limited, client, name) })
			all[name] = get
			go func() { _, _ = get() }() // Get returns the error
		}
	}
	return context.WithValue(ctx, fetchedKey{}, all), cancel
}

// fetchClaim gets a claim for the kubelet.
func fetchClaim(ctx context.Context, client kubernetes.Interface, name types.NamespacedName) (*resourceapi.ResourceClaim, error) {
	claim, err := getClaim(ctx, client, name)
	if err != nil {
		err = fmt.Errorf("%w; the kubelet tries again, and prepared claims are not affected", err)
	}
	return claim, err
}

var claimResource = resourceapi.Resource("resourceclaims")

// getClaim gets a claim, and retries after temporary errors of the API server until ctx ends. Only an error for which
// gone returns true means that there is no such claim.
func getClaim(ctx context.Context, client kubernetes.Interface, name types.NamespacedName) (*resourceapi.ResourceClaim, error) {
	began, backoff := time.Now(), loop.NewBackoff(100*time.Millisecond, 2*time.Second)
	var reason error // of the last try that did not end with ctx
	for tries := 1; ; tries++ {
		claim := &resourceapi.ResourceClaim{}
		err := client.ResourceV1().RESTClient().Get().Namespace(name.Namespace).Resource("resourceclaims").Name(name.Name).
			MaxRetries(0).Do(ctx).Into(claim)
		if err == nil {
			err = answer.About(claim, name.Namespace, name.Name)
		}
		if err == nil {
			return claim, nil
		}
		if reason == nil || ctx.Err() == nil {
			reason = err
		}
		if !answer.Temporary(err, claimResource, name.Name) || !loop.Sleep(ctx, max(backoff.Next(), suggested(err))) {
			return nil, fmt.Errorf("ask the API server for it (tries: %d, in %v): %w",
				tries, time.Since(began).Round(time.Millisecond), reason)
		}
	}
}

// gone reports whether the API server itself said that there is no claim of a name. Any other error leaves it unknown.
func gone(err error, name types.NamespacedName) bool {
	return answer.Gone(err, claimResource, name.Name)
}

// suggested returns the wait that the API server asked for.
func suggested(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// FetchClient is a client that returns claims from the context of WithClaims. It gets other claims from the API server.
type FetchClient struct{ kubernetes.Interface }

func (c FetchClient) ResourceV1() resourceclient.ResourceV1Interface {
	return claimResources{c.Interface.ResourceV1()}
}

type claimResources struct {
	resourceclient.ResourceV1Interface
}

func (r claimResources) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return claimGetter{r.ResourceV1Interface.ResourceClaims(namespace), namespace}
}

type claimGetter struct {
	resourceclient.ResourceClaimInterface
	namespace string
}

func (g claimGetter) Get(ctx context.Context, name string, options metav1.GetOptions) (*resourceapi.ResourceClaim, error) {
	all, _ := ctx.Value(fetchedKey{}).(fetched)
	if get := all[types.NamespacedName{Namespace: g.namespace, Name: name}]; get != nil {
		return get()
	}
	return g.ResourceClaimInterface.Get(ctx, name, options)
}
