package cdi_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestStoreOfKind: a store with a kind replaces and removes specs of it, and no other file, under the
// name and beside it.
func TestStoreOfKind(t *testing.T) {
	const theirs = "cdiVersion: 0.3.0\nkind: nvidia.com/gpu\ndevices: []\n"
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		store := cdi.Store{Dir: t.TempDir(), Kind: cdi.KindHCA}
		_, err := store.Load("x", format)
		test.ErrorIs(t, err, fs.ErrNotExist, test.Sprint("no file"))
		for range 2 { // a new file, and one of ours
			_, err := store.Write("x", newSpec(t, "a"), format)
			must.NoError(t, err)
		}
		changed, err := store.Write("x", newSpec(t, "a", "b"), cdi.Twin(format))
		test.True(t, changed && err == nil, test.Sprintf("over the twin: changed %v, error %v", changed, err))
		holds(t, store.Dir, "x."+string(cdi.Twin(format)))
		removed, err := store.Remove("x")
		test.True(t, removed && err == nil, test.Sprintf("removed %v, error %v", removed, err))
		must.NoError(t, os.WriteFile(store.Path("x", format), []byte(theirs), 0o600))
		foreign := &cdi.ForeignError{}
		_, err = store.Write("x", newSpec(t, "a"), format)
		test.True(t, errors.As(err, &foreign) && foreign.Path == store.Path("x", format),
			test.Sprintf("over a foreign file: %v", err))
		changed, err = store.Write("x", newSpec(t, "a"), cdi.Twin(format))
		test.True(t, changed && err == nil,
			test.Sprintf("beside a foreign file: changed %v, error %v", changed, err))
		removed, err = store.Remove("x")
		test.True(t, removed && err == nil,
			test.Sprintf("beside a foreign file: removed %v, error %v", removed, err))
		removed, err = store.Remove("x")
		test.True(t, !removed && err == nil,
			test.Sprintf("a foreign file alone: removed %v, error %v", removed, err))
		data, err := os.ReadFile(store.Path("x", format))
		test.True(t, string(data) == theirs && err == nil,
			test.Sprintf("the foreign file has %q, error %v", data, err))
		holds(t, store.Dir, "x."+string(format))
	}
}

// TestLoadLargest: the largest spec that there is reads as ours.
func TestLoadLargest(t *testing.T) {
	host, err := fixture.Large(1016)
	must.NoError(t, err)
	snap, err := rdma.Discover(host.OpenFS())
	must.NoError(t, err)
	devices, _ := cdi.HostDevices(snap, cdi.HostOptions{
		Names: cdi.NameStrategies, Nodes: rdma.NodeClasses, Hook: hook, Limit: args.Wanted{Handles: 1 << 40, Objects: 1 << 40}})
	spec, err := cdi.NewSpec(cdi.KindHCA, devices)
	must.NoError(t, err)
	store := cdi.Store{Dir: t.TempDir(), Kind: cdi.KindHCA}
	for _, format := range []cdi.Format{cdi.JSON, cdi.YAML} {
		if _, err := store.Write("x", spec, format); err != nil {
			t.Fatal(err)
		}
		data, err := store.Load("x", format)
		test.True(t, err == nil && len(data) <= 15<<19,
			test.Sprintf("%s: %d bytes, error %v; want room below the limit of 8 MiB", format, len(data), err))
	}
}

// FuzzLoad: where a runtime reads a spec from a file, Load sees one of the same kind, or none: it
// never takes the spec of another kind for ours.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("cdiVersion: 0.3.0\nkind: rdma.dev/hca\ndevices: [{name: a, containerEdits: {env: [A=B]}}]\n"))
	f.Add([]byte(`{"cdiVersion": "0.3.0", "kind": "rdma.dev/hca", "devices": []}`))
	f.Add([]byte("cdiVersion: 0.3.0\nkind: &k rdma.dev/hca\nkind: other/x\n"))
	f.Add([]byte("<<: {kind: rdma.dev/hca}\ncdiVersion: 0.3.0\nkind: other/x\n"))
	f.Add([]byte("x: &x rdma.dev/hca\ncdiVersion: 0.3.0\nkind: *x\n"))
	f.Add([]byte("cdiVersion: 0.3.0\nkind: !!str rdma.dev/hca\nKind: other/x\n"))
	f.Add([]byte("--- {cdiVersion: 0.3.0, kind: rdma.dev/hca}\n--- {kind: other/x}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		store := cdi.Store{Dir: t.TempDir(), Kind: cdi.KindHCA}
		must.NoError(t, os.WriteFile(filepath.Join(store.Dir, "x.yaml"), data, 0o600))
		_, err := store.Load("x", cdi.YAML)
		spec, parseErr := cdiapi.ParseSpec(data)
		if parseErr == nil && spec != nil && spec.Kind != cdi.KindHCA && err == nil {
			t.Errorf("%q: the CDI library reads kind %q", data, spec.Kind)
		}
	})
}
