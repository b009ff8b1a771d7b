package bundle_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/bundle"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
)

// secrets must not be left anywhere in an archive.
var secrets = []string{
	"gpu-west-17", "corp.example.com", "fusion-team", "hadron-trainer", "hadron-claim", "leaf-r12-sw3", "rack-of-bob", "alice@corp",
	"192.0.2.77", "2001:db8::77", "a0:88:c2:25:10:00", "a288:c2ff:fe25:1000", "a088c20300251000", "hunter2hunter2", "eyJhbGciOi",
	"bob-user", "gone-gpu-3", "sel-secret", "param-secret", "ann-secret", "registry.corp", "::ffff:192", "MIIEpA",
	"customer acme",
}

func source(t *testing.T) *bundle.Source {
	t.Helper()
	s := &bundle.Source{Key: []byte("a test")}
	patch.File(t, "testdata/source.yaml", s)
	log, err := os.ReadFile("testdata/driver.log")
	must.NoError(t, err)
	s.Drivers = []bundle.Driver{{Node: s.Cluster.Nodes[0].Name, Log: log,
		Page: []byte(`{"node":"gpu-west-17.corp.example.com","events":[{"object":"fusion-team/hadron-claim"}]}`)}}
	return s
}

// TestFiles: nothing in an archive names a node, a user's object, an address or a secret, not even the names of its
// files; what belongs together still does; and what a developer needs is there.
func TestFiles(t *testing.T) {
	files, err := source(t).Files()
	must.NoError(t, err)
	again, err := source(t).Files()
	must.NoError(t, err)
	for i, f := range files {
		golden.Bytes(t, "bundle/"+f.Name, f.Data)
		test.Eq(t, string(f.Data), string(again[i].Data), test.Sprintf("%s differs in the second archive", f.Name))
		for _, secret := range secrets {
			test.StrNotContains(t, strings.ToLower(f.Name+string(f.Data)), strings.ToLower(secret),
				test.Sprintf("%s has %q:\n%s", f.Name, secret, f.Data))
		}
		if strings.HasSuffix(f.Name, ".json") && !json.Valid(f.Data) {
			t.Errorf("%s is not JSON: %s", f.Name, f.Data)
		}
	}
}

// TestFilesBounded: an archive that would be too large is none.
func TestFilesBounded(t *testing.T) {
	s := source(t)
	s.Drivers[0].Log = make([]byte, bundle.MaxBytes)
	if _, err := s.Files(); err == nil || !strings.Contains(err.Error(), "name fewer nodes") {
		t.Errorf("error %v", err)
	}
}
