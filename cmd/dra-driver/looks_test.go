package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/installcheck"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
)

// TestLooks: the install check says nothing of a release unless the API server itself has answered each of its looks.
func TestLooks(t *testing.T) {
	var in release
	patch.File(t, "testdata/install-check.yaml", &in)
	list := metav1.ListMeta{ResourceVersion: "7"}
	answers := map[string]any{
		"daemonsets": &in.Drivers, "replicasets": &in.Test, "events": &corev1.EventList{ListMeta: list},
		"pods":           &corev1.PodList{ListMeta: list, Items: []corev1.Pod{in.Succeeded}},
		"resourceslices": &resourceapi.ResourceSliceList{ListMeta: list, Items: []resourceapi.ResourceSlice{in.Slice}},
	}
	check := func(fails string, do func(http.ResponseWriter, *http.Request, http.Handler)) (string, error) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for look, object := range answers {
				if !slices.Contains(strings.Split(r.URL.Path, "/"), look) {
					continue
				}
				if look == fails {
					do(w, r, nil)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				test.NoError(t, json.NewEncoder(w).Encode(object))
			}
		}))
		defer server.Close()
		client, _, err := apiclient.New(&rest.Config{Host: server.URL})
		must.NoError(t, err)
		var out bytes.Buffer
		flags := installFlags{namespace: "rdma", drivers: "driver", test: "test", timeout: time.Minute}
		err = flags.check(t.Context(), client, &out)
		return out.String(), err
	}
	out, err := check("", nil)
	must.NoError(t, err)
	must.Eq(t, 3, strings.Count(out, "ok:"))
	table := "\n| finding | looks |\n|---|---|\n"
	for _, k := range installcheck.Kinds.Kinds {
		table += fmt.Sprintf("| `%s` | `%s` |\n", k.ID, strings.Join(k.Looks, "`, `"))
		for _, look := range k.Looks {
			must.MapContainsKey(t, answers, look)
			for _, a := range apifault.Answers {
				out, err := check(look, a.Do)
				said := strings.ToLower(fmt.Sprint(err))
				test.StrContains(t, said, strings.TrimSuffix(look, "s"), test.Sprintf("%s for %s", a.Name, look))
				test.Eq(t, "", out, test.Sprintf("%s for %s", a.Name, look))
			}
		}
	}
	golden.Section(t, "../../docs/dev/findings.md", "install-check", table+"\n")
}
