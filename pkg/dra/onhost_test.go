package dra_test

import (
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/shoenig/test"
)

// onHost is a pod with the host's network.
func onHost(name string) nri.Pod {
	p := podNamed(name)
	p.Netns = ""
	return p
}

// TestOnHost: a pod with the host's network uses its claim's HCA on the host. Another pod of the claim does not take it away while
// that one runs, whoever was there when it started, and whether the API server still knows of it.
func TestOnHost(t *testing.T) {
	for _, name := range []string{
		"both known", "came later", "deleted by force", "deleted by force first", "driver restarted",
	} {
		t.Run(name, func(t *testing.T) {
			n, k, d := follow(t, make(chan watch.Signal), withEvents)
			drivertest.WaitTaints(t, n, onlyHCA, "")
			h, b := onHost("h"), podNamed("b")
			c := reservedOn(n, 1, b)
			switch name {
			case "came later":
			case "deleted by force first":
				reserve(n, c, h)
			default:
				reserve(n, c, h, b)
			}
			prepare(t, n, c)
			if name != "deleted by force first" {
				reserve(n, c, h, b)
			}
			d.starts(h)
			switch name {
			case "deleted by force":
				reserve(n, c, b)
			case "deleted by force first": // the runtime still has h; the node shows cgroups, and none of h
				n.AddPodCgroup(t, "uid-another", "main")
				reserve(n, c, b)
			case "driver restarted":
				d.stop()
				d = startHearing(t, n, make(chan watch.Signal), moving(n, k), quick, withEvents)
				d.Sandboxes().OnHost([]nri.Pod{h})
			}
			for range 2 {
				d.waits(b, "RDMA device mlx5_0 is used on the host by pod team-a/h (uid-h)", "it is free when that pod has ended")
			}
			k.IsIn("")
			test.Eq(t, 0, k.Moves(), test.Sprint("moves"))
			d.Sandboxes().Stopped(t.Context(), h)
			d.starts(b)
			k.IsIn(b.Netns)
			d.starts(h) // its containers wait for the HCA, by the hook, and it takes nothing
			d.starts(b)
			k.IsIn(b.Netns)
		})
	}
}
