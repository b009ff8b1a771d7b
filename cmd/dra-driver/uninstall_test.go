package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestUninstallCheck: claims with devices of this driver are in the way, with their
// users; those of other drivers, and those that wait, are not.
func TestUninstallCheck(t *testing.T) {
	waiting, other, used, shared := drivertest.Claim(1), drivertest.Claim(2, "gpu-0"), drivertest.Claim(3, hcas[0]),
		drivertest.Claim(4, hcas[1], hcas[2])
	waiting.Status.Allocation = nil
	other.Status.Allocation.Devices.Results[0].Driver = "gpu.example.com"
	used.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "trainer", UID: "1"}}
	shared.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "2"},
		{Resource: "pods", Name: "b", UID: "3"}}

	var out bytes.Buffer
	if err := checkUninstall(t.Context(), fake.NewClientset(waiting, other), &out); err != nil || out.Len() > 0 {
		t.Errorf("nothing is in use: %v, %s", err, &out)
	}
	err := checkUninstall(t.Context(), fake.NewClientset(waiting, other, used, shared), &out)
	if err == nil || !strings.Contains(err.Error(), "2 claims have devices of driver rdma.dev") ||
		!strings.Contains(err.Error(), "--no-hooks") {
		t.Errorf("claims are in use: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	must.Eq(t, 4, len(lines), must.Sprintf("want a line for each device:\n%s", &out))
	for i, want := range [][]string{{"NAMESPACE"}, {"claim-3", hcas[0], "pods/trainer"},
		{"claim-4", hcas[1], "pods/a and 1 more"}, {"claim-4", hcas[2]}} {
		for _, word := range want {
			test.StrContains(t, lines[i], word, test.Sprint("line"))
		}
	}
}

// TestUninstallCheckOfNobody: an empty answer of something else than the API server does not let the driver go.
func TestUninstallCheckOfNobody(t *testing.T) {
	for _, answer := range []string{`{}`, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		must.NoError(t, err)
		var out bytes.Buffer
		if err := checkUninstall(t.Context(), client, &out); err == nil || !strings.Contains(err.Error(), "not from the API server") {
			t.Errorf("%s: error %v, output %s", answer, err, &out)
		}
		server.Close()
	}
}
