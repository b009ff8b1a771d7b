package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/invariants"
)

// TestRollingUpdateFromDisk is TestRollingUpdate where the old driver is of a version that kept
// its records in the plugin's directory, as one with that state directory does. When it has gone, the
// next start moves them, and a container that starts again finds its files.
func TestRollingUpdateFromDisk(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	state := n.StateDir
	n.StateDir = n.PluginDir()
	old := n.Start(t, "11111111-0000-4000-8000-000000000001")
	stays := drivertest.Claim(1_000_000, hcas[3])
	n.AddClaim(stays)
	ids := mustPrepare(t, n, stays)
	next := n.Start(t, "22222222-0000-4000-8000-000000000002", "--state-dir", state)
	rollingUpdate(t, n, old)
	if files := drivertest.Files(t, state); len(files) > 0 {
		t.Errorf("beside the old driver the new one has %v", files)
	}
	if code := next.Terminate(); code != exitOK {
		t.Errorf("exit code is %d", code)
	}
	n.Disconnect()

	n.StateDir = state
	alone := n.Start(t, "33333333-0000-4000-8000-000000000003")
	if err := invariants.AtRest(n.Worker, invariants.Claims{Prepared: []*resourceapi.ResourceClaim{stays}}); err != nil {
		t.Error(err)
	}
	spec, err := os.ReadFile(drivertest.SpecPath(n.CDIDir, stays))
	if err != nil || bytes.Contains(spec, []byte(n.PluginDir())) || !bytes.Contains(spec, []byte(filepath.Join(state, "metadata"))) {
		t.Errorf("the spec of the claim names files of another place (%v):\n%s", err, spec)
	}
	if again := mustPrepare(t, n, stays); !slices.Equal(ids, again) {
		t.Errorf("IDs are %v, and were %v", again, ids)
	}
	mustUnprepare(t, n, stays)
	checkNothingLeft(t, n)
	if code := alone.Terminate(); code != exitOK {
		t.Errorf("exit code is %d", code)
	}
	if left := slices.Concat(drivertest.Files(t, state), drivertest.Files(t, n.PluginDir())); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
