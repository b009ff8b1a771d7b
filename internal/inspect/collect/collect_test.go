package collect_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/shoenig/test"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
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
	l := &corev1.NodeList{}
	for _, n := range names {
		l.Items = append(l.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	return l
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
