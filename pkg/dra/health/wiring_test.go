package health_test

import (
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// leadsTo sets the switch at the other end of an HCA's cable, and looks.
func (w *watched) leadsTo(h rdma.HCA, seen string) {
	w.obs.Wiring = map[health.PortID]health.Wiring{
		{Device: h.Name, Port: 1}: {Planned: "leaf-1", Seen: seen, Differs: seen != "leaf-1"},
	}
	w.look()
}

// TestMiswired: after two minutes, a port that leads to another switch than planned has a condition that informs. It
// has both names, and ends when the port leads to the planned switch. What is not known changes nothing.
func TestMiswired(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	w.leadsTo(h, "leaf-1")
	w.poll(time.Hour)
	w.leadsTo(h, "leaf-2")
	w.wait(2*time.Minute - time.Second)
	w.want(h.Name, "Healthy")
	w.wait(time.Second)
	w.want(h.Name, "Healthy miswired")
	_, message := w.View().Report(h.Name, w.now)
	test.StrContains(t, message, "port 1 is connected to leaf-2, and the wiring plan says leaf-1",
		test.Sprint("message"))
	test.Eq(t, "None", (health.Policy{}).Effect(health.Miswired), test.Sprint("the effect"))
	w.obs.Wiring = nil // no plan, or no source
	w.poll(time.Hour)
	w.want(h.Name, "Healthy miswired")
	w.leadsTo(h, "leaf-1")
	w.poll(time.Minute)
	w.want(h.Name, "Healthy")
	test.SliceEqOp(t, []string{"RDMAMiswired", "RDMAWiringAsPlanned"}, reasons(w),
		test.Sprintf("transitions are %v", w.transitions()))
}
