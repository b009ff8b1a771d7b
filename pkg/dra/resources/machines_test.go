package resources_test

import (
	"slices"
	"sync"
	"testing"

	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/fixture/synth"
	"github.com/rdma-dev/dra-driver-rdma/internal/fixture/tree"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const node = "node1"

// exclusive returns the slices of a host whose usable HCAs are all published for one
// claim alone.
func exclusive(snap *rdma.Snapshot) []resourceslice.Slice {
	var offers []resources.Offer
	for _, h := range snap.Usable() {
		offers = append(offers, resources.Offer{HCA: h, View: resources.ViewExclusive})
	}
	return resources.Slices(offers, nil, snap.NetnsMode, resources.Options{})
}

// snapshot returns what there is on a fixture machine.
func snapshot(t testing.TB, machine string) *rdma.Snapshot {
	t.Helper()
	m, err := fixture.Load(machine)
	if err != nil {
		t.Fatal(err)
	}
	return discover(t, m)
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
		largeOf[functions] = makeLarge(t, functions)
	}
	snap := *largeOf[functions]
	snap.HCAs = slices.Clone(snap.HCAs)
	for i := range snap.HCAs {
		snap.HCAs[i].Ports = slices.Clone(snap.HCAs[i].Ports)
	}
	return &snap
}

func makeLarge(t testing.TB, functions int) *rdma.Snapshot {
	t.Helper()
	host, err := synth.Large(functions)
	if err != nil {
		t.Fatal(err)
	}
	var sys tree.Tree
	if err := synth.Write(host, &sys); err != nil {
		t.Fatal(err)
	}
	archive, err := tree.Format(host.Doc, &sys)
	if err != nil {
		t.Fatal(err)
	}
	m, err := fixture.Parse(host.Name, archive)
	if err != nil {
		t.Fatal(err)
	}
	return discover(t, m)
}

func discover(t testing.TB, m *fixture.Machine) *rdma.Snapshot {
	t.Helper()
	snap, err := rdma.Discover(m.FS(t))
	if err != nil {
		t.Fatal(err)
	}
	return snap
}
