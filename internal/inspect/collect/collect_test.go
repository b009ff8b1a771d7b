package collect_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// TestPages: a long list comes in pages, and one whose next page has expired is read
// again as a whole.
func TestPages(t *testing.T) {
	for _, expires := range []bool{false, true} {
		client := fake.NewClientset()
		var asked []string
		client.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			o := action.(clienttesting.ListActionImpl).ListOptions
			asked = append(asked, fmt.Sprintf("%d %s", o.Limit, o.Continue))
			switch {
			case o.Continue == "more" && expires:
				return true, nil, apierrors.NewResourceExpired("too old")
			case o.Continue == "more":
				return true, nodes("b"), nil
			case o.Limit == 0:
				return true, nodes("a", "b"), nil
			}
			first := nodes("a")
			first.Continue = "more"
			return true, first, nil
		})
		c, err := collect.Reader{Client: client}.Read(context.Background(), collect.Nodes)
		if err != nil || len(c.Nodes) != 2 || c.Nodes[0].Name != "a" || c.Nodes[1].Name != "b" {
			t.Errorf("expires %t: %v, %v; want a and b", expires, c, err)
		}
		test.Eq(t, map[bool]string{false: "[500  500 more]", true: "[500  500 more 0 ]"}[expires], fmt.Sprint(asked),
			test.Sprintf("asked for %v", asked))
	}
}

func nodes(names ...string) *corev1.NodeList {
	l := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, n := range names {
		l.Items = append(l.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	return l
}

// TestUnread: whatever answers instead of the API server, a kind of object that was not read is in Unread, or there is
// no answer at all.
func TestUnread(t *testing.T) {
	f := fleet.New(t)
	ref := corev1.PodResourceClaim{Name: "of-template", ResourceClaimTemplateName: new("template")}
	pod := fleet.Pod("nic")
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, ref)
	f.Pods = append(f.Pods, pod)
	f.Pending("nic", controlplane.Claim(controlplane.Request{Name: "nic", Class: "hca.rdma.dev", Admin: true}))
	config, err := clientcmd.BuildConfigFromFlags("", f.Serve().Kubeconfig())
	must.NoError(t, err)
	proxy := apifault.New(t, config)
	client, err := kubernetes.NewForConfig(proxy.Config())
	must.NoError(t, err)
	refused := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": "no", "code": %d}`
	answers := append([]apifault.Strange{
		{Name: "forbidden", Do: apifault.Says(403, "application/json", fmt.Sprintf(refused, "Forbidden", 403))},
		{Name: "too late", Do: apifault.Says(504, "application/json", fmt.Sprintf(refused, "Timeout", 504))},
	}, apifault.Answers...)
	paths := map[model.Kind]string{
		model.Nodes: "/api/v1/nodes", model.Pods: "/api/v1/pods", model.Events: "/api/v1/namespaces/default/events",
		model.Namespace: "/api/v1/namespaces/default",
		model.Templates: "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates/template",
		model.OwnClaims: "/resourceclaims", "the pod": "/pods/trainer",
	}
	for _, kind := range []model.Kind{model.Slices, model.Claims, model.Classes, model.Rules} {
		paths[kind] = "/apis/resource.k8s.io/v1/" + string(kind)
	}
	reader := collect.Reader{Client: client}
	_, _, err = reader.Pod(t.Context(), "default", "trainer")
	must.NoError(t, err)
	for kind, path := range paths {
		for _, a := range answers {
			matches := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, path) }
			shot := proxy.Arm(apifault.Fault{N: 1, Lasting: true, Match: matches, Do: a.Do})
			c, _, err := reader.Pod(t.Context(), "default", "trainer")
			_, fired := shot.Fired()
			test.True(t, fired, test.Sprintf("%s is read", path))
			if err == nil && !c.Unread.Has(kind) {
				t.Errorf("%s: %s counts as read", a.Name, kind)
			}
		}
	}
}

// TestNotServed tells an API server without DRA from an object that is not there.
func TestNotServed(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewGenericServerResponse(404, "GET", corev1.Resource("resourceslices"), "", "", 0, true), true},
		{apierrors.NewNotFound(corev1.Resource("pods"), "x"), false},
		{apierrors.NewForbidden(corev1.Resource("pods"), "", nil), false},
		{context.Canceled, false},
	} {
		test.Eq(t, tc.want, collect.NotServed(fmt.Errorf("list: %w", tc.err)), test.Sprintf("%v", tc.err))
	}
}
