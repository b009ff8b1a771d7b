package drain_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/drain"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

var discovery = map[string]string{
	"/apis/resource.k8s.io":    `{"kind":"APIGroup","versions":[{"version":"v1"}]}`,
	"/apis/resource.k8s.io/v1": `{"kind":"APIResourceList","resources":[{"name":"devicetaintrules"}]}`,
}

// TestStranger: what is in front of the API server and answers {} has neither a rule of somebody else, nor stored one.
// It may have passed a write on.
func TestStranger(t *testing.T) {
	for gone, left := range map[bool]string{
		false: "; nothing was changed",
		true:  "; the write may have happened: kubectl get devicetaintrule rdma-drain.node.n1; 0 of 1 rules were written",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch answer, ok := discovery[r.URL.Path]; {
			case ok:
				_, _ = io.WriteString(w, answer)
			case gone && r.Method == http.MethodGet:
				w.WriteHeader(http.StatusNotFound)
				status := apierrors.NewNotFound(resourceapi.Resource("devicetaintrules"), path.Base(r.URL.Path)).Status()
				status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
				test.NoError(t, json.NewEncoder(w).Encode(status))
			default:
				_, _ = io.WriteString(w, "{}")
			}
		}))
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		must.NoError(t, err)
		rules, err := drain.Open(t.Context(), client)
		must.NoError(t, err)
		plan, err := drain.NewPlan(&model.Cluster{}, "n1", nil, resourceapi.DeviceTaintEffectNoSchedule, "")
		must.NoError(t, err)
		_, err = rules.Apply(t.Context(), plan.Rules, false)
		test.ErrorContains(t, err, "it is not from the API server")
		test.ErrorContains(t, err, left)
		_, err = rules.Remove(t.Context(), plan.Rules, false)
		test.ErrorContains(t, err, "; the write may have happened: kubectl get devicetaintrule rdma-drain.node.n1; 0 of 1")
		server.Close()
	}
}

// TestRemove: a dry run removes nothing. The answer to a removal is a Status, or the rule if that has finalizers. The
// API server reads the options of a DELETE in its body alone, if it has one (apiserver/pkg/endpoints/handlers/delete.go).
func TestRemove(t *testing.T) {
	removed, says := 0, `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answer, ok := discovery[r.URL.Path]; ok || r.Method != http.MethodDelete {
			_, _ = io.WriteString(w, answer)
			return
		}
		var options metav1.DeleteOptions
		test.NoError(t, json.NewDecoder(r.Body).Decode(&options))
		if options.DryRun == nil {
			removed++
		}
		_, _ = io.WriteString(w, says)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must.NoError(t, err)
	rules, err := drain.Open(t.Context(), client)
	must.NoError(t, err)
	plan, err := drain.NewPlan(&model.Cluster{}, "n1", nil, resourceapi.DeviceTaintEffectNoSchedule, "")
	must.NoError(t, err)
	for _, want := range []int{0, 1} {
		done, err := rules.Remove(t.Context(), plan.Rules, want == 0)
		must.NoError(t, err)
		test.Eq(t, []drain.Result{{Rule: plan.Rules[0].Name, Done: "removed"}}, done)
		test.Eq(t, want, removed, test.Sprint("removed rules"))
	}
	says = `{"kind":"DeviceTaintRule","metadata":{"name":"rdma-drain.node.n1","uid":"u","finalizers":["example.com/a"]}}`
	done, err := rules.Remove(t.Context(), plan.Rules, false)
	must.NoError(t, err)
	test.Eq(t, "removed when its finalizers are gone", done[0].Done)
}
