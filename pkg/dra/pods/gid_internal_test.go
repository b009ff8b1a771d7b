package pods

import (
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/nriruntime"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestFindGID: the GID of an address is found by its value and type, at whichever port. Link-local GIDs, unused entries
// and RoCE v1 are none.
func TestFindGID(t *testing.T) {
	sys := fstest.MapFS{}
	entry := func(port, index int, gid, kind string) {
		dir := fmt.Sprintf("class/infiniband/mlx5_0/ports/%d/", port)
		sys[fmt.Sprintf("%sgids/%d", dir, index)] = &fstest.MapFile{Data: []byte(gid + "\n")}
		sys[fmt.Sprintf("%sgid_attrs/types/%d", dir, index)] = &fstest.MapFile{Data: []byte(kind + "\n")}
	}
	entry(1, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2")
	entry(1, 1, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2")
	entry(1, 2, "0000:0000:0000:0000:0000:ffff:0a4f:0101", "IB/RoCE v1")
	entry(1, 3, "0000:0000:0000:0000:0000:ffff:0a4f:0101", "RoCE v2")
	entry(2, 0, "0000:0000:0000:0000:0000:ffff:0a4f:0201", "RoCE v2")
	h := &rdma.HCA{IBDev: "mlx5_0", Ports: []rdma.Port{{Number: 1}, {Number: 2}}}
	for address, want := range map[string]string{
		"10.79.1.1": "3 true", "10.79.2.1": "0 true", "10.79.3.1": "0 false", "0.0.0.0": "0 false",
	} {
		index, found, err := findGID(sys, h, netip.MustParseAddr(address))
		got := fmt.Sprint(index, found)
		test.True(t, got == want && err == nil, test.Sprintf("%s: %s %v, want %s", address, got, err, want))
	}
}

func TestHasVariable(t *testing.T) {
	c := nri.Container{Env: []string{"RDMA_GID_INDEX_A_1=3", "EMPTY="}}
	for name, want := range map[string]bool{
		"RDMA_GID_INDEX_A_1": true, "RDMA_GID_INDEX_A": false, "EMPTY": true, "": false,
	} {
		test.Eq(t, want, hasVariable(c, name), test.Sprintf("%q", name))
	}
}

// rails is a pod with two HCAs and an interface of each, and a runtime that announces it.
type rails struct {
	*served
	runtime *nriruntime.Runtime
	pod     nri.Pod
	sys     atomic.Pointer[fs.FS]
	looks   atomic.Int64 // at sys
	stop    func()
}

// newRails starts the pod. Its claims ask for words of env.
func newRails(t *testing.T, env string) *rails {
	t.Helper()
	r := &rails{runtime: nriruntime.New(t)}
	r.runtime.Up()
	r.served = serve(t, "roce-sriov", attaching(vfNetdev, pfNetdev), func(s *served) {
		s.config = func(c *Config) {
			c.NRISocket = r.runtime.Socket
			c.Sysfs = func(_ string, f func(fs.FS) error) error { r.looks.Add(1); return f(*r.sys.Load()) }
		}
	})
	r.setGIDs(3, 3)
	r.pod, _ = inside(t, "a")
	for _, c := range []*resourceapi.ResourceClaim{
		drivertest.WithNetwork(claimOf(1, r.pod, pf), `{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}, "env": `+env),
		drivertest.WithNetwork(claimOf(2, r.pod, vf), `{"mode": "macvlan", "addresses": ["10.9.1.2/24"]}, "env": `+env),
	} {
		r.facts.Networks.Others = append(r.facts.Networks.Others, r.prepares(t, c))
	}
	r.stop = r.connects(t)
	must.NoError(t, r.runtime.Run(r.ctx, r.pod))
	return r
}

// setGIDs gives the GIDs of both interfaces their indexes.
func (r *rails) setGIDs(ofPF, ofVF int) {
	snap, sys := rdmatest.Snapshot(r.t, "roce-sriov"), fstest.MapFS{}
	for hca, gid := range map[string]struct {
		index   int
		address string
	}{pf: {ofPF, "0a09:0002"}, vf: {ofVF, "0a09:0102"}} {
		dir := "class/infiniband/" + snap.Lookup(hca).IBDev + "/ports/1/"
		sys[fmt.Sprintf("%sgids/%d", dir, gid.index)] = &fstest.MapFile{
			Data: []byte("0000:0000:0000:0000:0000:ffff:" + gid.address + "\n")}
		sys[fmt.Sprintf("%sgid_attrs/types/%d", dir, gid.index)] = &fstest.MapFile{Data: []byte("RoCE v2\n")}
	}
	var of fs.FS = sys
	r.sys.Store(&of)
}

// CDI specs set these variables for the two HCAs and their interfaces.
var (
	ofPF = []string{"RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_0", "RDMA_INTERFACE_PCI_0000_3B_00_0=rdma0"}
	ofVF = []string{"RDMA_DEVICE_PCI_0000_3B_00_2=mlx5_2", "RDMA_INTERFACE_PCI_0000_3B_00_2=rdma1"}
)

func both(more ...string) []string { return slices.Concat(ofPF, ofVF, more) }

// creates creates a container, which must be given the variables.
func (r *rails) creates(name string, env []string, want ...string) {
	r.t.Helper()
	got, err := r.runtime.Create(r.ctx, r.pod, name, env...)
	must.NoError(r.t, err)
	test.Eq(r.t, want, got, test.Sprintf("container %s is given", name))
}

// told checks that the pod has an event.
func (r *rails) told(reason event.Reason, parts ...string) {
	r.t.Helper()
	r.says(r.t, r.pod, reason, parts...)
}

// TestGIDIndexOfLibraries: a library is told the GID index that all HCAs of a container have, and what the pod says
// itself stays. Where the HCAs differ, nothing is told, and the pod's events say why.
func TestGIDIndexOfLibraries(t *testing.T) {
	r := newRails(t, `["nccl-gid-index", "libfabric-gid-index"]`)
	own := []string{"RDMA_GID_INDEX_PCI_0000_3B_00_0=3", "RDMA_GID_INDEX_PCI_0000_3B_00_2=3"}
	r.creates("both", both(), "FI_VERBS_GID_IDX=3", "NCCL_IB_GID_INDEX=3", own[0], own[1])
	r.creates("own", both("NCCL_IB_GID_INDEX=7", "RDMA_GID_INDEX_PCI_0000_3B_00_0=9"), "FI_VERBS_GID_IDX=3", own[1])
	r.creates("none", []string{"HOME=/"})
	r.creates("stranger", both("RDMA_DEVICE_PCI_0000_99_00_0=mlx5_9"), own...)
	r.told(event.GIDIndexNotSet, "container stranger starts without NCCL_IB_GID_INDEX, FI_VERBS_GID_IDX",
		"an HCA of the container has no GID index: no claim of the pod gives it")

	r.setGIDs(3, 5)
	own[1] = "RDMA_GID_INDEX_PCI_0000_3B_00_2=5"
	r.creates("differ", both(), own...)
	r.told(event.GIDIndexNotSet, "container differ starts without", "different GID indexes",
		"RDMA_DEVICE_PCI_0000_3B_00_0 has 3, RDMA_DEVICE_PCI_0000_3B_00_2 has 5")
	r.creates("one", ofVF, "FI_VERBS_GID_IDX=5", "NCCL_IB_GID_INDEX=5", own[1])
}

// TestGIDIndexOnRequest: a library is told nothing that no claim asks for.
func TestGIDIndexOnRequest(t *testing.T) {
	r := newRails(t, `["nccl", "ucx"]`)
	r.creates("both", both(), "RDMA_GID_INDEX_PCI_0000_3B_00_0=3", "RDMA_GID_INDEX_PCI_0000_3B_00_2=3")
}

// TestGIDIndexWithoutInterface: an HCA without an interface has no index, and the pod's events say so.
func TestGIDIndexWithoutInterface(t *testing.T) {
	r := newRails(t, `["ucx-gid-index"]`)
	r.pod = podNamed("b")
	r.prepares(t, drivertest.WithNetwork(claimOf(3, r.pod, vf), `{}, "env": ["ucx-gid-index"]`))
	r.creates("app", ofVF[:1])
	r.told(event.GIDIndexNotSet, "starts without UCX_IB_GID_INDEX",
		"RDMA_DEVICE_PCI_0000_3B_00_2 has no GID index: the pod has no interface with an IPv4 address")
}

// TestGIDIndexRemoved: a pod that removed the address of its interface makes the runtime wait for one container alone.
func TestGIDIndexRemoved(t *testing.T) {
	t.Parallel()
	r := newRails(t, `[]`)
	var none fs.FS = fstest.MapFS{}
	r.sys.Store(&none)
	looksOf := func(container string) int64 {
		before := r.looks.Load()
		r.creates(container, ofPF)
		return r.looks.Load() - before
	}
	n := looksOf("first")
	test.True(t, n >= 2 && n <= 100, test.Sprintf("the driver looked %d times for the first container", n))
	test.Eq(t, 1, looksOf("second"), test.Sprint("the driver looked"))
	must.NoError(t, r.runtime.Stop(r.ctx, r.pod))
	must.NoError(t, r.runtime.Run(r.ctx, r.pod))
	test.GreaterEq(t, 2, looksOf("of the next sandbox"), test.Sprint("the driver looked"))
}

// TestGIDIndexChanges: a pod hears once when the index of its interface is another one than its container was told,
// also of a driver that came later.
func TestGIDIndexChanges(t *testing.T) {
	t.Parallel()
	r := newRails(t, `[]`)
	r.creates("app", ofPF, "RDMA_GID_INDEX_PCI_0000_3B_00_0=3")
	check := func() { r.Running(r.ctx, []nri.Pod{r.pod}) }
	check()
	r.setGIDs(5, 3)
	check()
	check()
	r.told(event.GIDIndexChanged, "RDMA_GID_INDEX_PCI_0000_3B_00_0=3", "the GID of 10.9.0.2 has index 5 on mlx5_0 now")
	r.setGIDs(6, 3)
	check()
	test.Len(t, 2, r.about(r.pod, event.GIDIndexChanged), test.Sprint("an event for each change"))
	r.told(event.GIDIndexChanged, "has index 6 on mlx5_0 now")
	for _, message := range r.about(r.pod, event.GIDIndexChanged) {
		test.StrNotContains(t, message, "has index 3", test.Sprint("the index as it was told"))
	}
	r.stop()
	r.setGIDs(7, 3)
	r.restart()
	r.connects(t)
	reported := func() bool { return len(r.about(r.pod, event.GIDIndexChanged)) == 3 }
	eventually(t, "the next driver reports the index", reported)
	r.told(event.GIDIndexChanged, "has index 7 on mlx5_0 now")
}
