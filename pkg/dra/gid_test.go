package dra_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/nriruntime"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

const pf = "pci-0000-3b-00-0"

// rails is a pod with two HCAs and an interface of each, and a driver that a runtime announces it to.
type rails struct {
	*testing.T
	node    *drivertest.Node
	driver  *driver
	runtime *nriruntime.Runtime
	pod     nri.Pod
	sys     atomic.Pointer[fs.FS]
	looks   atomic.Int64 // at sys
}

// newRails starts the pod. Its claims ask for words of env.
func newRails(t *testing.T, env string) *rails {
	t.Helper()
	_, attach := attaching(t, "")
	r := &rails{T: t, node: drivertest.NewNode(t, "roce-sriov"), runtime: nriruntime.New(t)}
	r.setGIDs(3, 3)
	withGIDs := func(c *dra.Config) {
		c.NRISocket, c.ClaimEvents = r.runtime.Socket, true
		c.SetPodSys(func() fs.FS { r.looks.Add(1); return *r.sys.Load() })
	}
	r.runtime.Up()
	r.driver = start(t, r.node, attach, withGIDs)
	r.driver.says("Connected to NRI")
	r.pod, _ = inside(t, "a")
	claims := []*resourceapi.ResourceClaim{
		wanting(reserved(1, r.pod, pf), `{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}, "env": `+env),
		wanting(reserved(2, r.pod, vf), `{"mode": "macvlan", "addresses": ["10.9.1.2/24"]}, "env": `+env),
	}
	r.node.AddClaim(claims...)
	for _, c := range claims {
		prepare(t, r.node, c)
	}
	must.NoError(t, r.runtime.Run(t.Context(), r.pod))
	return r
}

// setGIDs gives the GIDs of both interfaces their indexes.
func (r *rails) setGIDs(ofPF, ofVF int) {
	snap, sys := rdmatest.Snapshot(r, "roce-sriov"), fstest.MapFS{}
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
	r.Helper()
	got, err := r.runtime.Create(r.Context(), r.pod, name, env...)
	if err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("container %s is given (-want +got):\n%s", name, diff)
	}
}

// told waits until the pod has an event.
func (r *rails) told(reason event.Reason, parts ...string) {
	r.Helper()
	drivertest.Eventually(r, func() error {
		for _, e := range r.node.Events() {
			has := e.InvolvedObject.UID == types.UID(r.pod.UID) && e.Reason == reason.Reason
			for _, part := range parts {
				has = has && strings.Contains(e.Message, part)
			}
			if has {
				return nil
			}
		}
		return fmt.Errorf("no event %s of the pod says %q", reason.Reason, parts)
	})
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
	runtime := nriruntime.New(t)
	runtime.Up()
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, func(c *dra.Config) { c.NRISocket, c.ClaimEvents = runtime.Socket, true })
	d.says("Connected to NRI")
	pod := podNamed("a")
	claim := wanting(reserved(1, pod, vf), `{}, "env": ["ucx-gid-index"]`)
	n.AddClaim(claim)
	prepare(t, n, claim)
	r := &rails{T: t, node: n, driver: d, runtime: runtime, pod: pod}
	r.creates("app", ofVF[:1])
	r.told(event.GIDIndexNotSet, "starts without UCX_IB_GID_INDEX",
		"RDMA_DEVICE_PCI_0000_3B_00_2 has no GID index: the pod has no interface with an IPv4 address")
}

// TestGIDIndexRemoved: a pod that removed the address of its interface makes the runtime wait for one container, and not
// for its others.
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
	must.NoError(t, r.runtime.Stop(t.Context(), r.pod))
	must.NoError(t, r.runtime.Run(t.Context(), r.pod))
	test.GreaterEq(t, 2, looksOf("of the next sandbox"), test.Sprint("the driver looked"))
}

// TestGIDIndexChanges: a pod hears once when the index of its interface is another one than its container was told,
// also of a driver that came later.
func TestGIDIndexChanges(t *testing.T) {
	t.Parallel()
	r := newRails(t, `[]`)
	r.creates("app", ofPF, "RDMA_GID_INDEX_PCI_0000_3B_00_0=3")
	check := func() { r.driver.Sandboxes().Running(t.Context(), []nri.Pod{r.pod}) }
	check()
	r.setGIDs(5, 3)
	check()
	check()
	r.told(event.GIDIndexChanged, "RDMA_GID_INDEX_PCI_0000_3B_00_0=3", "the GID of 10.9.0.2 has index 5 on mlx5_0 now")
	r.setGIDs(6, 3)
	check()
	page := reasons(r.driver.Status(t.Context()))
	got := slices.DeleteFunc(page, func(e string) bool { return !strings.HasPrefix(e, event.GIDIndexChanged.Reason) })
	once := event.GIDIndexChanged.Reason + " team-a/claim-1 x1"
	test.Eq(t, []string{once, once}, got, test.Sprint("the page's events"))
	r.told(event.GIDIndexChanged, "has index 6 on mlx5_0 now")
	for _, e := range r.node.Events() {
		test.True(t, e.Reason != event.GIDIndexChanged.Reason || !strings.Contains(e.Message, "has index 3"),
			test.Sprintf("an event says that the index is as it was told: %s", e.Message))
	}
	r.driver.stop()
	r.setGIDs(7, 3)
	_, attach := attaching(t, "")
	start(t, r.node, attach, func(c *dra.Config) {
		c.NRISocket, c.ClaimEvents = r.runtime.Socket, true
		c.SetPodSys(func() fs.FS { return *r.sys.Load() })
	})
	r.told(event.GIDIndexChanged, "has index 7 on mlx5_0 now")
}
