package publisher

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestListOfStranger: {} with code 200 does not say that the API server has lost all slices, or an earlier revision.
func TestListOfStranger(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must.NoError(t, err)
	cfg := Config{Client: client}
	_, err = (&Publisher{cfg: cfg}).list(t.Context())
	test.ErrorContains(t, err, "it is not from the API server")
	_, err = cfg.listWatch().ListWithContextFunc(t.Context(), metav1.ListOptions{})
	test.ErrorContains(t, err, "it is not from the API server")
}
