package claims

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
)

// TestReasonOfTheLastAnswer: a call whose time is over while the API server does not answer has the reason of the try
// before. That the time is over, the kubelet knows.
func TestReasonOfTheLastAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var tries atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 {
			apifault.Status(http.StatusInternalServerError)(w, r, nil)
			return
		}
		cancel()
		apifault.Hang(w, r, nil)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must.NoError(t, err)
	const want = "refused by the test"
	_, err = getClaim(ctx, client, types.NamespacedName{Namespace: "team-a", Name: "nic"})
	test.True(t, err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "tries: 2"),
		test.Sprintf("error %v, want two tries and %q", err, want))
}
