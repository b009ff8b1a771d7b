package claimstore_test

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

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
		must.NoError(t, err)
		snap, err := rdma.Discover(m.FS(t))
		must.NoError(t, err)
		must.NoError(t, s.Memory().Remember("hcas", snap.HCAs))
		var got []rdma.HCA
		ok, err := s.Memory().Recall("hcas", &got)
		must.True(t, ok && err == nil, must.Sprintf("recall: %v, %v", ok, err))
		test.Eq(t, snap.HCAs, got, test.Sprint(name))
	}
	other, err := claimstore.Open(dir, claimstore.Boot{ID: "another"})
	must.NoError(t, err)
	ok, err := other.Memory().Recall("hcas", new([]rdma.HCA))
	test.True(t, !ok && err == nil, test.Sprintf("recalled %v, %v after a reboot", ok, err))
	write(t, "{", dir, "hcas.json")
	ok, err = s.Memory().Recall("hcas", new([]rdma.HCA))
	test.True(t, !ok && err != nil, test.Sprintf("recalled %v, %v of half a file", ok, err))
}
