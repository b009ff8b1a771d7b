package offer

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestHeldBackOnce: an event names the HCAs for which an effect is held back, and comes once for the same ones.
func TestHeldBackOnce(t *testing.T) {
	var snap rdma.Snapshot
	expected := map[string]health.Expected{}
	for _, slot := range []string{"0000:19:00", "0000:3b:00"} {
		h := rdma.HCA{Function: rdma.PF, Identity: rdma.Identity{PCI: slot + ".0"}, Uverbs: &rdma.Node{},
			Ports: []rdma.Port{{Number: 1, State: rdma.PortActive, RateMbps: 100_000}}}
		h.Name = h.Identity.Name()
		expected[h.Name] = health.Expected{MinRateMbps: 400_000}
		snap.HCAs = append(snap.HCAs, h)
	}
	m, now := health.New(health.DefaultConfig()), time.Unix(0, 0)
	for range 2 {
		m.Observe(health.Observation{Snapshot: &snap, Expected: expected}, now)
		now = now.Add(time.Hour)
	}
	var r reported
	said := notices{}
	p := health.Policy{Effects: map[health.Condition]resourceapi.DeviceTaintEffect{health.PortSlow: "NoSchedule"}}
	for range 3 {
		said.record(heldBack(m.View(), p), &r)
	}
	test.True(t, len(r.Events()) == 1 && strings.Contains(r.Events()[0].Message, "card 0000:19:00 has the effects") &&
		strings.HasSuffix(r.Events()[0].Message, "effect None: pci-0000-3b-00-0 (port-slow)"),
		test.Sprintf("events are %+v, want one", r.Events()))
	said.record(heldBack(m.View(), health.Policy{}), &r)
	said.record(heldBack(m.View(), p), &r)
	test.Eq(t, 2, len(r.Events()), test.Sprint("events"))
}
