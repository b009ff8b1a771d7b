package collect_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/collect"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

const (
	group   = `{"kind": "APIGroup", "versions": [{"version": "v1"}, {"version": "v1alpha3"}]}`
	without = `{"kind": "APIResourceList", "resources": [{"name": "resourceslices"}]}`
	with    = `{"kind": "APIResourceList", "resources": [{"name": "devicetaintrules"}]}`
	one     = `{"kind": "DeviceTaintRuleList", "items": [{"metadata": {"name": "one"},
		"spec": {"deviceSelector": {"driver": "rdma.dev"}, "taint": {"key": "a", "effect": "NoSchedule"}}}]}`
	slices = `{"kind": "ResourceSliceList", "metadata": {"resourceVersion": "1"}, "items": []}`
)

// ask reads the slices and the rules of a server that answers the paths below /apis/resource.k8s.io with these texts,
// and with the plain "404 page not found" all others.
func ask(t *testing.T, answers map[string]string) *model.Cluster {
	t.Helper()
	answers["/v1/resourceslices"] = slices
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[strings.TrimPrefix(r.URL.Path, "/apis/resource.k8s.io")]
		switch {
		case !ok:
			http.NotFound(w, r)
			return
		case json.Valid([]byte(text)):
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = w.Write([]byte(text)) // the client sees what is missing
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must.NoError(t, err)
	c, err := collect.Reader{Client: client}.Read(context.Background(), collect.Slices, collect.Rules)
	must.NoError(t, err)
	return c
}

// TestRules: only an API server's own lists say that it serves no rules. Everything else is not known.
func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		answers map[string]string
		rules   int
		unread  string
	}{
		"v1":               {map[string]string{"": group, "/v1": with, "/v1/devicetaintrules": one}, 1, ""},
		"alpha":            {map[string]string{"": group, "/v1": without, "/v1alpha3": with, "/v1alpha3/devicetaintrules": one}, 1, ""},
		"not served":       {map[string]string{"": group, "/v1": without, "/v1alpha3": without}, 0, ""},
		"nothing answers":  {map[string]string{}, 0, "the server could not find the requested resource"},
		"group lost":       {map[string]string{"": group, "/v1": without}, 0, "the server could not find the requested resource"},
		"list lost":        {map[string]string{"": group, "/v1": with}, 0, "the server could not find the requested resource"},
		"object of others": {map[string]string{"": `{"status": "ok"}`}, 0, `it answers with the kind ""`},
		"other list":       {map[string]string{"": group, "/v1": with, "/v1/devicetaintrules": slices}, 0, `the kind "ResourceSliceList"`},
		"newer field": {map[string]string{"": group, "/v1": with, "/v1/devicetaintrules": strings.Replace(one, `"driver"`,
			`"deviceClassName": "gpu", "driver"`, 1)}, 0, `does not understand 1 of 1: one (unknown field "deviceClassName")`},
		"page of a proxy": {
			map[string]string{"": "<html>Log in</html>"}, 0,
			"read /apis/resource.k8s.io from the API server: it answers with",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := ask(t, tc.answers)
			unread := strings.Join(c.Unread.Why(), "; ")
			if len(c.Rules) != tc.rules || !strings.Contains(unread, tc.unread) || (tc.unread == "") != (unread == "") {
				t.Errorf("%d rules, not known: %q; want %d, %q", len(c.Rules), unread, tc.rules, tc.unread)
			}
			if unread != "" && !strings.HasSuffix(unread, "; a rule may keep devices away") {
				t.Errorf("%q does not say what follows", unread)
			}
		})
	}
}

// TestOldServer: an API server that lacks a kind of resource.k8s.io is too old. One that lacks another kind may be new.
func TestOldServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must.NoError(t, err)
	for kind, old := range map[collect.Kind]bool{
		collect.Slices: true, collect.Claims: true, collect.Nodes: false, collect.Pods: false,
	} {
		_, err := collect.Reader{Client: client}.Read(t.Context(), kind)
		must.Error(t, err)
		test.Eq(t, old, strings.Contains(err.Error(), "needs Kubernetes 1.34"), test.Sprint(err))
	}
}
