package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
)

// TestUserAgent: the API server's audit log has the version of who asks; it may answer in protobuf, and one
// that does not know it in JSON. It is sent protobuf.
func TestUserAgent(t *testing.T) {
	var agent, accept, sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent, accept, sent = r.UserAgent(), r.Header.Get("Accept"), r.Header.Get("Content-Type")
		http.NotFound(w, r)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: it\ncontexts: [{name: it, context: {cluster: it}}]\n" +
		"clusters: [{name: it, cluster: {server: '" + server.URL + "'}}]\n"
	must.NoError(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	client, _, err := newClient(kubeconfig)
	must.NoError(t, err)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	// There is no such claim.
	_, _ = client.ResourceV1().ResourceClaims("team-a").UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	test.Eq(t, "dra-driver-rdma/"+version.Get(), agent, test.Sprint("user agent"))
	test.Eq(t, "application/vnd.kubernetes.protobuf,application/json", accept, test.Sprint("accepts"))
	test.Eq(t, "application/vnd.kubernetes.protobuf", sent, test.Sprint("sends"))
}
