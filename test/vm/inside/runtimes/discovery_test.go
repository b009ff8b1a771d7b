package runtimes

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// cdi-gen finds the devices and their nodes on a real kernel.
func TestDiscovery(t *testing.T) {
	var snapshot struct {
		HCAs []struct {
			IBDev, Protocol string
			Name            string
		}
	}
	must.NoError(t, json.Unmarshal([]byte(stdout(t, "cdi-gen", "list", "-o", "json")), &snapshot))
	protocols := map[string]string{}
	for _, h := range snapshot.HCAs {
		protocols[h.IBDev] = h.Protocol
	}
	for ibdev, want := range map[string]string{"rxe0": "roce", "rxe1": "roce", "siw0": "iwarp"} {
		test.Eq(t, want, protocols[ibdev], test.Sprintf("%s: protocol", ibdev))
	}
	test.Eq(t, 3, len(protocols), test.Sprintf("found %v, want three devices", protocols))
	names := strings.Fields(stdout(t, "cdi-gen", "list", "-o", "name"))
	for _, name := range []string{"rdma.dev/hca=rxe0", "rdma.dev/hca=rxe1", "rdma.dev/hca=siw0"} {
		test.True(t, slices.Contains(names, name), test.Sprintf("no device is named %q: %v", name, names))
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
	must.NoError(t, json.Unmarshal([]byte(stdout(t, "cdi-gen", "generate", "--output", "json")), &s))
	test.SliceEqOp(t, []string{"/dev/infiniband/rdma_cm"}, s.ContainerEdits.paths(),
		test.Sprint("nodes of the spec"))
	found := 0
	for _, d := range s.Devices {
		if !slices.Contains([]string{"rxe0", "rxe1", "siw0"}, d.Name) {
			continue
		}
		found++
		want := []string{"/dev/infiniband/" + uverbs(t, d.Name)}
		test.SliceEqOp(t, want, d.ContainerEdits.paths(), test.Sprintf("%s: nodes", d.Name))
		if _, err := os.Stat(want[0]); err != nil {
			t.Error(err)
		}
	}
	test.Eq(t, 3, found, test.Sprintf("the spec has %d of three devices: %+v", found, s.Devices))
}
