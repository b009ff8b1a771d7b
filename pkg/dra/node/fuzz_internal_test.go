package node

import (
	"encoding/json"
	"testing"
	"testing/fstest"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// FuzzRemembered: whatever the driver before has left of HCAs and taints, this one judges and publishes
// its host; what is there is what is read now, not what was left.
func FuzzRemembered(f *testing.F) {
	snap := rdmatest.Snapshot(f, "mlx5-sf")
	left, err := json.Marshal(snap.HCAs)
	must.NoError(f, err)
	f.Add(left, []byte(`{"pci-0000-c1-00-0":{"since":{"port-down":"2026-01-01T00:00:00Z"}}}`))
	f.Add([]byte(`[{}]`),
		[]byte(`{"":{"since":{"device-gone":"2026-01-01T00:00:00Z","x":"2036-01-01T00:00:00Z"},"falls":{"-1":[]}}}`))
	f.Add([]byte(`[{"Name":"gone","Ports":[{"Number":-1}],"Identity":{"PCI":"0000:ff:00.0"},"PF":"0000:c1:00.0"}]`), []byte(`null`))
	f.Fuzz(func(t *testing.T, hcas, past []byte) {
		var known []rdma.HCA
		var was map[string]health.Past
		if json.Unmarshal(hcas, &known) != nil || json.Unmarshal(past, &was) != nil {
			return // as Recall has it
		}
		h := &Host{Snapshot: snap, Sys: fstest.MapFS{}, seen: map[string]*rdma.HCA{}}
		for _, hca := range snap.HCAs {
			h.seen[hca.Name] = &hca
		}
		h.learn(known)
		judge := newJudge(health.DefaultConfig())
		judge.model.Recall(was, time.Now())
		view := View{Host: h, Plans: []*plan.Plan{{}}}
		for name := range h.seen {
			h.Cards(name)
			view.Plans[0].Devices = append(view.Plans[0].Devices, plan.Device{Device: name})
		}
		view.remarkable()
		view.unbound()
		judge.model.Observe(health.Observation{Snapshot: snap, Held: view.held()}, time.Now())
		state := policy.State{Taints: judge.model.View().Taints(health.Policy{Informational: true})}
		all := snap.With(view.Missing()...)
		decided := policy.Default().Apply(all, state)
		decided.Slices()
		for i := range snap.HCAs {
			if there := all.Lookup(snap.HCAs[i].Name); there == nil || there.IBDev != snap.HCAs[i].IBDev {
				t.Errorf("%s is %v, by what an earlier driver knew", snap.HCAs[i].Name, there)
			}
		}
	})
}
