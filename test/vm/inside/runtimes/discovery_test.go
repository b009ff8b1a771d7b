package runtimes

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// cdi-gen finds the devices and their nodes on a real kernel.
func TestDiscovery(t *testing.T) {
	var snapshot struct {
		HCAs []struct {
			IBDev, Protocol string
			Name            string
		}
	}
	if err := json.Unmarshal([]byte(stdout(t, "cdi-gen", "list", "-o", "json")), &snapshot); err != nil {
		t.Fatal(err)
	}
	protocols := map[string]string{}
	for _, h := range snapshot.HCAs {
		protocols[h.IBDev] = h.Protocol
	}
	for ibdev, want := range map[string]string{"rxe0": "roce", "rxe1": "roce", "siw0": "iwarp"} {
		if protocols[ibdev] != want {
			t.Errorf("%s: protocol %q, want %q", ibdev, protocols[ibdev], want)
		}
	}
	if len(protocols) != 3 {
		t.Errorf("found %v, want three devices", protocols)
	}
	names := strings.Fields(stdout(t, "cdi-gen", "list", "-o", "name"))
	for _, name := range []string{"rdma.dev/hca=rxe0", "rdma.dev/hca=rxe1", "rdma.dev/hca=siw0"} {
		if !slices.Contains(names, name) {
			t.Errorf("no device is named %q: %v", name, names)
		}
	}
}

// spec is what the tests read of a CDI spec.
type spec struct {
	CDIVersion     string
	ContainerEdits edits
	Devices        []struct {
		Name           string
		ContainerEdits edits
	}
}

type edits struct {
	DeviceNodes []struct{ Path string }
}

func (e edits) paths() []string {
	var paths []string
	for _, n := range e.DeviceNodes {
		paths = append(paths, n.Path)
	}
	return paths
}

// Each device of the spec gives the uverbs node that the kernel names for it, and
// rdma_cm stands at the spec.
func TestSpecNamesTheKernelsNodes(t *testing.T) {
	var s spec
	if err := json.Unmarshal([]byte(stdout(t, "cdi-gen", "generate", "--output", "json")), &s); err != nil {
		t.Fatal(err)
	}
	if got := s.ContainerEdits.paths(); !slices.Equal(got, []string{"/dev/infiniband/rdma_cm"}) {
		t.Errorf("nodes of the spec: %v", got)
	}
	found := 0
	for _, d := range s.Devices {
		if !slices.Contains([]string{"rxe0", "rxe1", "siw0"}, d.Name) {
			continue
		}
		found++
		want := []string{"/dev/infiniband/" + uverbs(t, d.Name)}
		if got := d.ContainerEdits.paths(); !slices.Equal(got, want) {
			t.Errorf("%s: nodes %v, want %v", d.Name, got, want)
		}
		if _, err := os.Stat(want[0]); err != nil {
			t.Error(err)
		}
	}
	if found != 3 {
		t.Errorf("the spec has %d of three devices: %+v", found, s.Devices)
	}
}
