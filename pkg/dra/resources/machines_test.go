package resources_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/shoenig/test/must"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const node = "node1"

// exclusive returns the slices of a host whose usable HCAs are all published for one
// claim alone.
func exclusive(snap *rdma.Snapshot) []resourceslice.Slice {
	var offers []resources.Offer
	for _, h := range snap.Usable() {
		offers = append(offers, resources.Offer{HCA: h, Form: resources.FormExclusive})
	}
	return resources.Slices(offers, nil, snap.NetnsMode, resources.Options{})
}

var (
	largeMu sync.Mutex
	largeOf = map[int]*rdma.Snapshot{}
)

// large returns what there is on a host of that many functions: eight or more
// PFs with their VFs. The host is made once; the caller may change its copy.
func large(t testing.TB, functions int) *rdma.Snapshot {
	t.Helper()
	largeMu.Lock()
	defer largeMu.Unlock()
	if largeOf[functions] == nil {
		m, err := fixture.Large(functions)
		must.NoError(t, err)
		largeOf[functions] = rdmatest.Discover(t, m)
	}
	snap := *largeOf[functions]
	snap.HCAs = slices.Clone(snap.HCAs)
	for i := range snap.HCAs {
		snap.HCAs[i].Ports = slices.Clone(snap.HCAs[i].Ports)
	}
	return &snap
}
