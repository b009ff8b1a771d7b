package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// TestInterfacesFail: a pod that cannot have its interface does not start, and nothing is left of it.
func TestInterfacesFail(t *testing.T) {
	s := serve(t, "roce-sriov", attaching(vfNetdev, "ens1f0v1"))
	pod, ns := inside(t, "a")
	ns.Wire("rdma0") // something else of the name
	s.prepares(t, drivertest.WithNetwork(claimOf(1, pod, vf2, vf), `{"mode": "move"}`))
	links := func() (names []string) {
		for line := range strings.Lines(s.net.IP("-br link")) {
			names = append(names, strings.Fields(line)[0])
		}
		return slices.Sorted(slices.Values(names))
	}
	before := links()
	s.waits(pod, "the pod has another interface of that name already")
	ns.IP("link del rdma0")
	ns.Wire("rdma1") // now the second one fails, and the first one comes back
	test.Error(t, s.Started(s.ctx, pod), test.Sprint("the pod was started"))
	test.Eq(t, before, links(), test.Sprint("on the host"))
	s.noRecords()
	onHost := pod
	onHost.Netns = ""
	test.ErrorContains(t, s.Started(s.ctx, onHost), "hostNetwork", test.Sprint("with the host's network"))
}

// TestLacksLoggedOnce: the reason why a running pod lacks its interface is logged once, and not in each retry.
func TestLacksLoggedOnce(t *testing.T) {
	s := serve(t, "roce-sriov", attaching(vfNetdev))
	pod, ns := inside(t, "a")
	s.prepares(t, drivertest.WithNetwork(claimOf(1, pod, vf), `{"mode": "move"}`))
	ns.Wire("rdma0") // something else of the name
	for range 3 {
		s.Running(s.ctx, []nri.Pod{pod})
	}
	logged := s.log.String()
	test.Eq(t, 1, strings.Count(logged, "Pod does not have its RDMA devices yet"),
		test.Sprintf("lines after three tries: %s", logged))
	ns.IP("link del rdma0")
	s.Running(s.ctx, []nri.Pod{pod})
	ns.IP("link show dev rdma0")
}

// TestInterfacesLowMTU: a pod whose interface gives smaller RDMA packets than the HCA can send starts, with an event.
// With the interface of the HCA itself the HCA follows, so there is nothing to say.
func TestInterfacesLowMTU(t *testing.T) {
	s := serve(t, "roce-sriov", attaching(vfNetdev, "ens1f0v1", pfNetdev))
	for i, c := range []struct{ hca, netdev, network, says string }{
		{vf2, "ens1f0v1", `{"mode": "move", "mtu": 1500}`, ""},
		{pf, pfNetdev, `{"mode": "macvlan", "mtu": 4192}`, ""},
		{vf, vfNetdev, `{"mode": "macvlan", "mtu": 1500}`, "pod pod-2: network interface rdma0 has MTU 1500, " +
			"so RDMA connections over it have packets of 1024 bytes, and the HCA can have 4096: that needs MTU 4192"},
	} {
		s.net.IP("link set w-" + c.netdev + " mtu 9000")
		s.net.IP("link set " + c.netdev + " mtu 9000")
		pod, _ := inside(t, fmt.Sprint("pod-", i))
		s.prepares(t, drivertest.WithNetwork(claimOf(i+1, pod, c.hca), c.network))
		s.starts(pod)
		if c.says != "" {
			s.says(t, pod, event.LowMTU, c.says)
		} else {
			test.SliceEmpty(t, s.about(pod, event.LowMTU))
		}
	}
}

// TestInterfacesUnseen: a sandbox ends while no driver is there. The next driver gives its address back, which the next
// pod then gets: the range has no other.
func TestInterfacesUnseen(t *testing.T) {
	config := `{"type": "host-local", "dataDir": "` + t.TempDir() +
		`", "ranges": [[{"subnet": "10.78.0.0/30", "gateway": "10.78.0.2"}]]}`
	s := serve(t, "roce-sriov", attaching(vfNetdev), leasing(podnettest.Plugins(t), config))
	link := filepath.Join(t.TempDir(), "netns")
	pod, ns := inside(t, "a")
	must.NoError(t, os.Symlink(pod.Netns, link))
	pod.Netns = link
	s.prepares(t, drivertest.WithNetwork(claimOf(1, pod, vf), `{"mode": "macvlan", "ipam": "roce"}`))
	s.starts(pod)
	test.StrContains(t, ns.IP("-br addr show dev rdma0"), "10.78.0.1/30", test.Sprint("addresses"))
	must.NoError(t, os.Remove(link))
	s.restart()
	s.runs(t)
	again, ns := inside(t, "a") // the same pod in another sandbox
	s.starts(again)
	test.StrContains(t, ns.IP("-br addr show dev rdma0"), "10.78.0.1/30",
		test.Sprint("addresses in the next sandbox"))
	s.Stopped(s.ctx, again)
	s.noRecords()
}

// TestInterfacesOfEndedSandboxes: a runtime that is connected lists sandboxes that have ended beside the one that their
// pod has now, with or without the path of their network namespace.
func TestInterfacesOfEndedSandboxes(t *testing.T) {
	s := serve(t, "roce-sriov", attaching(vfNetdev))
	pod, ns := inside(t, "a")
	s.prepares(t, drivertest.WithNetwork(claimOf(1, pod, vf), `{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}`))
	s.starts(pod)
	ended, nameless := pod, pod
	ended.Netns, nameless.Netns = filepath.Join(t.TempDir(), "netns"), ""
	index := ns.IP("-o link show dev rdma0")
	for range 10 { // in any order
		s.Running(s.ctx, []nri.Pod{ended, pod, nameless})
	}
	test.Eq(t, index, ns.IP("-o link show dev rdma0"), test.Sprint("the interface"))
	test.SliceEmpty(t, s.about(pod, event.MoveFailed))
}

// TestInterfacesLater: the interface of a pod that started while nobody looked is not there yet. The pod gets it when
// it is: nobody tells the driver again of a pod that runs.
func TestInterfacesLater(t *testing.T) {
	t.Parallel()
	s := serve(t, "roce-sriov", attaching(vfNetdev))
	pod, ns := inside(t, "a")
	s.prepares(t, drivertest.WithNetwork(claimOf(1, pod, vf), `{"mode": "move", "addresses": ["10.9.0.2/24"]}`))
	s.net.IP("link set " + vfNetdev + " down")
	s.net.IP("link set " + vfNetdev + " name elsewhere")
	synctest.Test(t, func(t *testing.T) {
		s.restart() // in the bubble, so that the tries cost no time
		s.runs(t)
		s.Running(s.ctx, []nri.Pod{pod})
		out, err := ns.Try("link show dev rdma0")
		must.Error(t, err, must.Sprintf("it is there: %s", out))
		s.net.IP("link set elsewhere name " + vfNetdev)
		time.Sleep(retryMax) // of the bubble
	})
	test.StrContains(t, ns.IP("-br addr show dev rdma0"), "10.9.0.2/24")
	s.Stopped(s.ctx, pod)
	s.noRecords()
}
