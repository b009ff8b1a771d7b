package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Server is an API server that lists a fleet, and writes down what was asked for.
type Server struct {
	// Forbidden are resources that the user may not read, with the scope: "nodes", or
	// "resourceclaims" for all namespaces, and "default/resourceclaims" for one.
	Forbidden []string
	// Asked are the requests: "list nodes", "get default/pods/trainer".
	Asked []string
	// RuleVersions are the versions in which DeviceTaintRules are served.
	RuleVersions []string
	// Version is the version of Kubernetes, "" if the server does not say.
	Version string

	t     testing.TB
	lists Lists
	url   string
	// created is when stored rules were made: three hours before the server, so that all have the same age.
	created metav1.Time
}

// Serve starts a server, which ends with the test.
func (f *Fleet) Serve() *Server {
	s := &Server{t: f.TB, lists: f.Lists(), RuleVersions: []string{"v1"}, created: metav1.NewTime(time.Now().Add(-3 * time.Hour))}
	mux := http.NewServeMux()
	serve(s, mux, "nodes", "/api/v1", s.lists.Nodes)
	serve(s, mux, "pods", "/api/v1", s.lists.Pods)
	serve(s, mux, "events", "/api/v1", s.lists.Events)
	serve(s, mux, "configmaps", "/api/v1", f.ConfigMaps)
	serve(s, mux, "namespaces", "/api/v1", []corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "default"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "fabric", UID: "fabric"}},
	})
	serve(s, mux, "resourceslices", "/apis/resource.k8s.io/v1", s.lists.Slices)
	serve(s, mux, "resourceclaims", "/apis/resource.k8s.io/v1", s.lists.Claims)
	serve(s, mux, "resourceclaimtemplates", "/apis/resource.k8s.io/v1", f.Templates)
	serve(s, mux, "deviceclasses", "/apis/resource.k8s.io/v1", s.lists.Classes)
	s.serveRules(mux)
	s.serveReviews(mux)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"gitVersion": s.Version})
	})
	server := httptest.NewServer(mux)
	f.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// serveRules adds the DeviceTaintRules in every version that has them, and what says in which they are served.
func (s *Server) serveRules(mux *http.ServeMux) {
	const group = "/apis/resource.k8s.io"
	mux.HandleFunc("GET "+group, func(w http.ResponseWriter, _ *http.Request) {
		list := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: "resource.k8s.io"}
		for _, v := range slices.Compact(append([]string{"v1"}, s.RuleVersions...)) {
			version := metav1.GroupVersionForDiscovery{GroupVersion: "resource.k8s.io/" + v, Version: v}
			list.Versions = append(list.Versions, version)
		}
		answer(w, http.StatusOK, list)
	})
	for _, v := range []string{"v1", "v1beta2", "v1alpha3"} {
		s.storeRules(mux, group+"/"+v)
		mux.HandleFunc("GET "+group+"/"+v, func(w http.ResponseWriter, _ *http.Request) {
			list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
			if slices.Contains(s.RuleVersions, v) {
				list.APIResources = []metav1.APIResource{{Name: "devicetaintrules", Kind: "DeviceTaintRule"}}
			}
			answer(w, http.StatusOK, list)
		})
	}
}

// Kubeconfig writes a file with which clients reach the server.
func (s *Server) Kubeconfig() string {
	s.t.Helper()
	name := filepath.Join(s.t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test",
"clusters": [{"name": "test", "cluster": {"server": %q}}],
"contexts": [{"name": "test", "context": {"cluster": "test", "user": ""}}, {"name": "other", "context": {"cluster": "test", "user": "", "namespace": "fabric"}}]}`, s.url)
	must.NoError(s.t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// serve adds a resource: the list of all namespaces, that of one, and single objects.
func serve[T any, P interface {
	*T
	metav1.Object
}](s *Server, mux *http.ServeMux, resource, base string, objects []T) {
	serveNewest[T, P](s, mux, resource, base, func() []T { return objects })
}

// serveNewest serves objects that change.
func serveNewest[T any, P interface {
	*T
	metav1.Object
}](s *Server, mux *http.ServeMux, resource, base string, objects func() []T) {
	group := ""
	if strings.HasPrefix(base, "/apis/") {
		group = path.Base(path.Dir(base))
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		namespace, name := r.PathValue("namespace"), r.PathValue("name")
		scope := resource
		if namespace != "" {
			scope = namespace + "/" + resource
		}
		verb := "list"
		if name != "" {
			verb, scope = "get", scope+"/"+name
		}
		s.Asked = append(s.Asked, verb+" "+scope)
		if slices.Contains(s.Forbidden, scope) || slices.Contains(s.Forbidden, verb+" "+resource) {
			says := fmt.Sprintf("%s is forbidden: User \"jane\" cannot %s resource %q", resource, verb, resource)
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, group, resource, name, says)
			return
		}
		items := choose[T, P](objects(), namespace, name, r)
		if name == "" {
			answer(w, http.StatusOK, map[string]any{
				"kind": kindOf[T]() + "List", "metadata": metav1.ListMeta{ResourceVersion: "1"}, "items": items,
			})
		} else if len(items) == 0 {
			says := fmt.Sprintf("%s %q not found", resource, name)
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, group, resource, name, says)
		} else {
			answer(w, http.StatusOK, items[0])
		}
	}
	for _, path := range []string{"/" + resource, "/namespaces/{namespace}/" + resource} {
		mux.HandleFunc("GET "+base+path, handle)
		mux.HandleFunc("GET "+base+path+"/{name}", handle)
	}
}

// kindOf returns the kind of an object, which is the name of its type.
func kindOf[T any]() string { return reflect.TypeFor[T]().Name() }

// choose does what an API server does with selectors.
func choose[T any, P interface {
	*T
	metav1.Object
}](objects []T, namespace, name string, r *http.Request) []T {
	byLabel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	byField, _ := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	out := []T{}
	for i := range objects {
		o := P(&objects[i])
		known := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
		if e, ok := any(o).(*corev1.Event); ok {
			known["involvedObject.uid"], known["involvedObject.kind"] = string(e.InvolvedObject.UID), e.InvolvedObject.Kind
			known["type"] = e.Type
		}
		if (namespace == "" || o.GetNamespace() == namespace) && (name == "" || o.GetName() == name) &&
			byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(known) {
			out = append(out, objects[i])
		}
	}
	return out
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client sees what is missing
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, group, resource, name, message string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Group: group, Kind: resource, Name: name},
	})
}
