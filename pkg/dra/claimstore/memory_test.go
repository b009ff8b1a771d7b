package claimstore_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestMemory: what one driver leaves the next one reads, in the same boot; and what an
// HCA is survives it.
func TestMemory(t *testing.T) {
	s, dir := newStore(t)
	if ok, err := s.Memory().Recall("hcas", new([]rdma.HCA)); ok || err != nil {
		t.Errorf("recalled %v, %v of nothing", ok, err)
	}
	for _, name := range fixture.Names() {
		m, err := fixture.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := rdma.Discover(m.FS(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Memory().Remember("hcas", snap.HCAs); err != nil {
			t.Fatal(err)
		}
		var got []rdma.HCA
		if ok, err := s.Memory().Recall("hcas", &got); !ok || err != nil {
			t.Fatalf("recall: %v, %v", ok, err)
		}
		if diff := cmp.Diff(snap.HCAs, got); diff != "" {
			t.Errorf("%s (-there +recalled):\n%s", name, diff)
		}
	}
	other, err := claimstore.Open(dir, claimstore.Boot{ID: "another"})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := other.Memory().Recall("hcas", new([]rdma.HCA)); ok || err != nil {
		t.Errorf("recalled %v, %v after a reboot", ok, err)
	}
	write(t, "{", dir, "hcas.json")
	if ok, err := s.Memory().Recall("hcas", new([]rdma.HCA)); ok || err == nil {
		t.Errorf("recalled %v, %v of half a file", ok, err)
	}
}
