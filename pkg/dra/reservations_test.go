package dra_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// reserve has a claim reserved for just these pods, as the API server has it from now on. The kubelet
// prepares no claim again for a pod that comes later.
func reserve(n *drivertest.Node, c *resourceapi.ResourceClaim, pods ...nri.Pod) {
	c.Status.ReservedFor = nil
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: types.UID(p.UID)})
	}
	n.AddClaim(c)
}

// ofPod makes a claim one that was made from a template for a pod.
func ofPod(c *resourceapi.ResourceClaim, pod nri.Pod) *resourceapi.ResourceClaim {
	yes := true
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID(pod.UID), Controller: &yes}}
	return c
}

// rewrite replaces a part of a claim's record, which has to be there.
func rewrite(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, old, now string) {
	t.Helper()
	path := filepath.Join(n.RecordDir(), string(c.UID)+".json")
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), old) {
		err = fmt.Errorf("the record has no %s: %s", old, data)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), old, now, 1)), 0o600)
	}
	must.NoError(t, err)
}

// starts starts a pod, which must succeed.
func (d *driver) starts(pod nri.Pod) {
	d.t.Helper()
	must.NoError(d.t, d.Sandboxes().Started(d.t.Context(), pod))
}

// waits starts a pod, which must fail and say why, to the runtime and in an event of the pod.
func (d *driver) waits(pod nri.Pod, parts ...string) {
	d.t.Helper()
	err := d.Sandboxes().Started(d.t.Context(), pod)
	must.Error(d.t, err, must.Sprintf("pod %s was started", pod.Name))
	drivertest.Eventually(d.t, func() error {
		for _, e := range d.node.Events() {
			missing := func(part string) bool { return !strings.Contains(e.Message, part) }
			about := e.InvolvedObject.UID == types.UID(pod.UID) && e.Reason == event.MoveFailed.Reason
			if about && !slices.ContainsFunc(parts, missing) {
				return nil
			}
		}
		return fmt.Errorf("no event of pod %s says %q", pod.Name, parts)
	})
	for _, part := range parts {
		test.StrContains(d.t, err.Error(), part, test.Sprintf("error %v", err))
	}
}

// TestLaterPodFollowed: an HCA is in one pod at a time. A pod that the claim is reserved for later hears which one has
// it, and gets it when that has ended.
func TestLaterPodFollowed(t *testing.T) {
	for name, restart := range map[string]bool{"first pod deleted": false, "driver restarted": true} {
		t.Run(name, func(t *testing.T) {
			n, k, d := follow(t, make(chan watch.Signal), withEvents)
			waitTaints(t, n, onlyHCA, "")
			a, b := podNamed("a"), podNamed("b")
			c := reservedOn(n, 1, a)
			prepare(t, n, c)
			d.starts(a)
			reserve(n, c, b) // the first one is gone from the API server before its sandbox is
			if restart {
				reserve(n, c, a, b)
				d.stop()
				d = startHearing(t, n, make(chan watch.Signal), k.moving, quick, withEvents)
				d.Sandboxes().Running(t.Context(), []nri.Pod{a})
			}
			d.waits(b, "RDMA device mlx5_0 is in pod team-a/a", "it comes back when that pod's sandbox is gone")
			d.Sandboxes().Stopped(t.Context(), a)
			if where, _ := k.at(); where != "" {
				t.Errorf("the device is in %q", where)
			}
			d.starts(b)
			where, number := k.at()
			spec := specSays(t, n, c)
			test.True(t, where == b.Netns && strings.Contains(spec, fmt.Sprintf(`"mlx5_0:uverbs%d"`, number)),
				test.Sprintf("the device is in %q with uverbs%d, and the spec says\n%s", where, number, spec))
		})
	}
}

// TestLaterPodRunning: nobody was there when a later pod started. It gets the HCA when the pod that has it ends,
// though the runtime tells of its start no more.
func TestLaterPodRunning(t *testing.T) {
	t.Parallel()
	n, k, d := follow(t, make(chan watch.Signal))
	waitTaints(t, n, onlyHCA, "")
	a, b := podNamed("a"), podNamed("b")
	c := reservedOn(n, 1, a)
	prepare(t, n, c)
	d.starts(a)
	reserve(n, c, a, b)
	ctx, logged := logging(t)
	d.Sandboxes().Running(ctx, []nri.Pod{a, b, podNamed("other")})
	test.StrContains(t, logged.String(), "RDMA device mlx5_0 is in pod team-a/a", test.Sprint("the log lacks"))
	test.SliceEqOp(t, []nri.Pod{b}, d.Pending(), test.Sprint("pending"))
	d.Sandboxes().Stopped(t.Context(), a)
	drivertest.Eventually(t, func() error {
		if where, _ := k.at(); where != b.Netns {
			return fmt.Errorf("the device is in %q", where)
		}
		return nil
	})
}

// TestLaterPodUnsure: while the API server does not say for whom claims are, pods start: most have none. One that has does
// not run without its HCA, and gets it when the server is back.
func TestLaterPodUnsure(t *testing.T) {
	t.Parallel()
	n, k, d := follow(t, make(chan watch.Signal))
	waitTaints(t, n, onlyHCA, "")
	a, b, other := podNamed("a"), podNamed("b"), podNamed("other")
	c := reservedOn(n, 1, a)
	prepare(t, n, c)
	reserve(n, c, b)
	n.Fail(drivertest.GetClaim, http.StatusServiceUnavailable)
	d.starts(b)
	d.starts(other)
	late := d.Pending()
	test.True(t, k.moves == 0 && len(late) == 2, test.Sprintf("%d moves, and pending are %v", k.moves, late))
	n.Fail(drivertest.GetClaim, 0)
	drivertest.Eventually(t, func() error {
		if where, _ := k.at(); where != b.Netns || len(d.Pending()) > 0 {
			return fmt.Errorf("the device is in %q, and pending are %v", where, d.Pending())
		}
		return nil
	})
}

// TestLaterPodCost: the API server is asked once for each claim that the pod may share, and for no other.
func TestLaterPodCost(t *testing.T) {
	n, _, d := follow(t, make(chan watch.Signal))
	waitTaints(t, n, onlyHCA, "")
	a := podNamed("a")
	costs := func(what string, pod nri.Pod, want int) {
		t.Helper()
		before := n.Count(drivertest.GetClaim)
		d.starts(pod)
		test.Eq(t, want, n.Count(drivertest.GetClaim)-before, test.Sprint(what))
	}
	other, elsewhere := podNamed("other"), podNamed("elsewhere")
	elsewhere.Namespace = "team-b"
	costs("no claim is prepared", other, 0)
	own := ofPod(reserved(1, a, onlyHCA), a)
	n.AddClaim(own)
	prepare(t, n, own)
	costs("the claim was made for one pod", other, 0)
	rewrite(t, n, own, `,"only":"uid-a"`, "")
	costs("the record does not say so", other, 1)
	costs("now it does", podNamed("another"), 0)
	unprepare(t, n, own)
	shared := reservedOn(n, 2, a)
	prepare(t, n, shared)
	costs("its pod", a, 0)
	costs("a pod that may share it", other, 1)
	costs("a pod of another namespace", elsewhere, 0)
	d.Sandboxes().Stopped(t.Context(), a)
	unprepare(t, n, shared)
	monitor := drivertest.Monitor(3, onlyHCA)
	n.AddClaim(monitor)
	prepare(t, n, monitor)
	costs("a claim of which nothing follows", other, 0)
}

// TestLaterPodInterface: each pod of a claim has an interface of its own, for any claim and whenever the pod came.
func TestLaterPodInterface(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		known  bool // when the claim is prepared
	}{
		"known":               {`{"mode": "macvlan"}`, true},
		"later":               {`{"mode": "macvlan"}`, false},
		"known, a lease each": {`{"mode": "macvlan", "ipam": "roce"}`, true},
		"later, a lease each": {`{"mode": "macvlan", "ipam": "roce"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, attach := attaching(t, podnettest.Plugins(t))
			n := drivertest.NewNode(t, "roce-sriov")
			m := newConfigMap(t, "ipam:", "  roce: {type: host-local, dataDir: "+t.TempDir()+", ranges: [[{subnet: 10.78.0.0/24}]]}")
			d := start(t, n, attach, m.with(t))
			a, inA := inside(t, "a")
			b, inB := inside(t, "b")
			claim := wanting(reserved(1, a, vf), c.config)
			if c.known {
				reserve(n, claim, a, b)
			}
			n.AddClaim(claim)
			prepare(t, n, claim)
			d.starts(a)
			reserve(n, claim, a, b)
			d.starts(b)
			said := map[string]bool{}
			for _, ns := range []*podnettest.Namespace{inA, inB} {
				fields := strings.Fields(ns.IP("-br -4 addr show dev rdma0"))
				mac := strings.Fields(ns.IP("-br link show dev rdma0"))[2]
				said[mac] = true
				if strings.Contains(c.config, "ipam") {
					must.GreaterEq(t, 3, len(fields), must.Sprintf("the interface has no address: %v", fields))
					said[fields[2]] = true
				}
			}
			test.Eq(t, 2*(1+strings.Count(c.config, "ipam")), len(said),
				test.Sprintf("the two pods have %v", said))
			d.Sandboxes().Stopped(t.Context(), a)
			inB.IP("link show dev rdma0")
			d.Sandboxes().Stopped(t.Context(), b)
			noRecords(t, n)
		})
	}
}

// TestLaterPodWaits: what only one pod can have at a time is that of the first, whether the others were known when
// the claim was prepared or not, and then of the next.
func TestLaterPodWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ config, says string }{
		"move":      {`{"mode": "move"}`, `network interface "ens1f0v0" of the host is in pod team-a/a`},
		"addresses": {`{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}`, `its addresses 10.9.0.2/24 are in pod team-a/a`},
	} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, known %t", name, known), func(t *testing.T) {
				_, attach := attaching(t, "")
				n := drivertest.NewNode(t, "roce-sriov")
				d := start(t, n, attach, withEvents)
				a, _ := inside(t, "a")
				b, inB := inside(t, "b")
				claim := wanting(reserved(1, a, vf), c.config)
				if known {
					reserve(n, claim, a, b)
				}
				n.AddClaim(claim)
				prepare(t, n, claim)
				d.starts(a)
				reserve(n, claim, a, b)
				d.waits(b, c.says, "that pod's sandbox is gone")
				prepare(t, n, claim) // as a restarted kubelet does
				d.Sandboxes().Stopped(t.Context(), a)
				reserve(n, claim, b)
				d.starts(b)
				inB.IP("link show dev rdma0")
				d.Sandboxes().Stopped(t.Context(), b)
				noRecords(t, n)
			})
		}
	}
}

// TestLaterPodNames: a claim that is prepared for a pod has another name for its interface than the claim that the pod shares
// with one that was there before. Of two claims that have their names already, an event says so.
func TestLaterPodNames(t *testing.T) {
	t.Parallel()
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach, withEvents)
	a, _ := inside(t, "a")
	b, inB := inside(t, "b")
	shared := wanting(reserved(1, a, vf), `{"mode": "macvlan"}`)
	n.AddClaim(shared)
	prepare(t, n, shared)
	d.starts(a)
	reserve(n, shared, a, b)
	own := ofPod(wanting(reserved(2, b, "pci-0000-3b-00-0"), `{"mode": "macvlan"}`), b)
	n.AddClaim(own)
	n.Fail(drivertest.GetClaimOf(shared), http.StatusServiceUnavailable)
	refused(t, n, own, "name its network interfaces", "claim team-a/claim-1")
	n.Fail(drivertest.GetClaimOf(shared), 0)
	prepare(t, n, own)
	test.StrContains(t, specSays(t, n, own), "RDMA_INTERFACE_PCI_0000_3B_00_0=rdma1",
		test.Sprint("the interface has a name that the pod"))
	d.starts(b)
	for _, name := range []string{"rdma0", "rdma1"} {
		inB.IP("link show dev " + name)
	}
	third, _ := inside(t, "c")
	another := wanting(reserved(3, podNamed("d"), "pci-0000-3b-00-1"), `{"mode": "macvlan"}`)
	n.AddClaim(another)
	prepare(t, n, another)
	reserve(n, another, third)
	reserve(n, shared, a, b, third)
	d.waits(third, "claims team-a/claim-1 and team-a/claim-3 both have rdma0", "network.interface")
}

// TestLaterPodExclusive: HCA and interface of a claim go to the next pod together.
func TestLaterPodExclusive(t *testing.T) {
	host := podnettest.New(t)
	host.Wire("ens1np0")
	n := drivertest.NewNode(t, "exclusive-netns")
	k := &kernel{t: t, host: n}
	d := startHearing(t, n, make(chan watch.Signal), k.moving, quick, func(c *dra.Config) {
		c.Interfaces, c.NRISocket = podnet.On(host.Namespace, "rdma.dev", []netip.Addr{}), filepath.Join(c.HostRoot, "no-nri.sock")
	}, withEvents)
	a, _ := inside(t, "a")
	b, inB := inside(t, "b")
	c := wanting(reserved(1, a, onlyHCA), `{"mode": "move", "addresses": ["10.9.0.2/24"]}`)
	n.AddClaim(c)
	prepare(t, n, c)
	d.starts(a)
	reserve(n, c, a, b)
	d.waits(b, "RDMA device mlx5_0 is in pod team-a/a")
	d.Sandboxes().Stopped(t.Context(), a)
	d.starts(b)
	inB.IP("link show dev rdma0")
	where, _ := k.at()
	test.Eq(t, b.Netns, where, test.Sprint("the RDMA device"))
}
