package dra_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

// through runs a driver that meets its API server through a proxy.
func through(t *testing.T, n *drivertest.Node, proxy *apifault.Proxy, options ...func(*dra.Config)) *driver {
	t.Helper()
	cfg := config(n)
	for _, o := range options {
		o(&cfg)
	}
	cfg.Spend(shortTurns(), clock.RealClock{})
	client, err := kubernetes.NewForConfig(proxy.Config())
	must.NoError(t, err)
	driven, err := dra.New(cfg, client)
	must.NoError(t, err)
	return run(t, n, driven)
}

// TestShareIsNotGone: for a moment, something in front of the API server answers instead of it. A pod that shares a
// prepared claim starts meanwhile. The driver does not take the claim for gone: it tries again for the pod, which gets
// its interface when the API server answers.
func TestShareIsNotGone(t *testing.T) {
	t.Parallel()
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	proxy := apifault.New(t, n.Config())
	d := through(t, n, proxy, attach)
	first, _ := inside(t, "first")
	claim := drivertest.WithNetwork(reserved(1, first, vf), `{"mode": "macvlan"}`)
	n.AddClaim(claim)
	prepare(t, n, claim)
	d.starts(first)
	for i, tc := range apifault.Some() {
		pod, ns := inside(t, fmt.Sprint("pod-", i))
		reserve(n, claim, first, pod)
		shot := proxy.Arm(apifault.Fault{N: 1, Match: apifault.Claims, Do: tc.Do, Lasting: true})
		d.starts(pod)
		test.Eq(t, 1, len(d.Pending()), test.Sprintf("%s: the driver tries again for %v", tc.Name, d.Pending()))
		shot.Disarm()
		drivertest.Eventually(t, func() error {
			if out, err := ns.Try("-br link show dev rdma0"); err != nil {
				return fmt.Errorf("%s: the pod lacks its interface: %s", tc.Name, out)
			}
			return nil
		})
		_, asked := shot.Fired()
		test.True(t, asked, test.Sprintf("%s: nobody asked for the claim", tc.Name))
	}
}
