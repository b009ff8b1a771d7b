package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
)

// TestRefusedBesideAnother: a driver that starts with a bad file leaves the node to the driver that works there. Alone it
// goes on: here to the next error, as there is no API server.
func TestRefusedBesideAnother(t *testing.T) {
	state := drivertest.TempDir(t)
	args := []string{"--node-name", "n", "--state-dir", state, "--config", "testdata/bad.yaml"}
	if code, _, stderr := invoke(t, nil, args...); code != exitError || !strings.Contains(stderr, "configure the Kubernetes client") {
		t.Errorf("alone: exit code %d, stderr %q", code, stderr)
	}
	other, err := claimstore.Enter(state, drivertest.TempDir(t), claimstore.Boot{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	code, _, stderr := invoke(t, nil, args...)
	if code != exitUsage || !strings.Contains(stderr, `read configuration "testdata/bad.yaml": `) ||
		!strings.Contains(stderr, "another driver works on the node") {
		t.Errorf("beside another driver: exit code %d, stderr %q", code, stderr)
	}
	runtime.KeepAlive(other) // with its lock
}
