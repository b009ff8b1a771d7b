package rdma_test

import (
	"maps"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestSoftware: a software HCA on an interface of a pod is known, and takes no name from one of the host, whatever the
// pod calls its interface. One that a claim has moved keeps its name. sysfs has the name that the interface has in its own
// namespace (parent_show, drivers/infiniband/sw/rxe/rxe_verbs.c); RDMA netlink names it only to its own namespace.
func TestSoftware(t *testing.T) {
	sys := variantFS(t, "soft",
		"rxe3/parent --\nveth0\n", "rxe3/parent --\neth0\n", // a pod's
		"rxe1/parent --\neth1\n", "rxe1/parent --\nrdma0\n", "sys/class/net/eth1 ->", "sys/class/net/eth1x ->") // moved
	answers := map[string]*rdma.Software{
		"rxe0": {Index: 1, Netdev: "eth0"}, "rxe1": {Index: 2, Netdev: "eth1"}, "rxe3": {Index: 4},
	}
	s := rdma.NewScanner(sys)
	s.Software = func(ibdev string) *rdma.Software { return answers[ibdev] }
	snap, err := s.Scan()
	must.NoError(t, err)
	got := map[string]string{}
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		got[h.Name] = h.IBDev + " on " + h.Port1().Netdev
		test.NoError(t, rdma.Verify(sys, h))
	}
	test.Eq(t, map[string]string{
		"soft-rxe-eth0": "rxe0 on eth0", "soft-rxe-eth1": "rxe1 on ", "soft-rxe-dummy0": "rxe2 on dummy0",
		"soft-rxe-eth0-at-" + hca(t, snap, "rxe3").Identity.Discriminator: "rxe3 on ",
	}, got)
	maps.Copy(answers, map[string]*rdma.Software{"rxe3": {Index: 4, Netdev: "veth0"}})
	snap, err = s.Update(rdma.Changes{Netdevs: rdma.NamesOf("eth0")})
	must.NoError(t, err)
	test.Eq(t, "soft-rxe-veth0", hca(t, snap, "rxe3").Name, test.Sprint("back on the host the pod's HCA"))
}
