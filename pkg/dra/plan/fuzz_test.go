package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// FuzzNew: whatever an API server says of a claim, there is a plan with devices or an error; a plan says the
// same when it comes back from its record, and its spec has only nodes of RDMA.
func FuzzNew(f *testing.F) {
	snap := rdmatest.Snapshot(f, "roce-sriov")
	for _, c := range []*resourceapi.ResourceClaim{
		drivertest.Claim(1, "pci-0000-3b-00-0"), drivertest.Claim(2, "pci-0000-3b-00-0", "group-all"), drivertest.Monitor(3, "shared-pci-0000-3b-00-4"),
		drivertest.Share(4, map[string]string{"handles": "7", "objects": "10k"}, "shared-pci-0000-3b-00-1"),
		drivertest.WithParameters(drivertest.Claim(5, "pci-0000-3b-00-4"), `"memlock": "4Gi", "nodes": ["verbs"], "env": ["nccl", "ucx"]`), {},
	} {
		seed, err := json.Marshal(c)
		must.NoError(f, err)
		f.Add(seed)
	}
	node := here
	node.Groups = groups
	node.Cards = map[string][]string{"pci-0000-3b-00-4": {"pci-0000-3b-00-0"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c resourceapi.ResourceClaim
		if json.Unmarshal(data, &c) != nil {
			return
		}
		node.Pool = drivertest.NodeName
		p, err := plan.New(&c, node)
		if err != nil {
			return
		}
		must.NotEq(t, 0, len(p.Devices), must.Sprint("a plan without devices"))
		checkPlan(t, p)
		if raw, err := json.Marshal(p); err != nil {
			t.Error(err)
		} else if err := json.Unmarshal(raw, new(plan.Plan)); err != nil {
			t.Errorf("the record of a plan cannot be read: %v", err)
		}
		spec, err := p.Spec(snap, plan.HookOptions{Path: "/hook", OnDenied: "clamp"}, "")
		if err != nil {
			return
		}
		for _, d := range spec.Devices {
			for _, n := range d.ContainerEdits.DeviceNodes {
				test.StrHasPrefix(t, "/dev/infiniband/", n.Path, test.Sprintf("device %s has node", d.Name))
			}
		}
	})
}

// FuzzRecorded: whatever a record says, its plan has a spec or none, and no panic.
func FuzzRecorded(f *testing.F) {
	snap := rdmatest.Snapshot(f, "roce-sriov")
	f.Add([]byte(`{"uid":"u","namespace":"n","name":"c","site":{"memlock":"unlimited"},"devices":[{"request":"r","pool":"p","device":"pci-0000-3b-00-0","settings":{"memlock":"4Gi","nodes":["verbs","cm"],"env":["nccl"]}}]}`))
	f.Add([]byte(`{"devices":[{"device":"group-g","members":["pci-0000-3b-00-0","pci-0000-3b-00-1"],"cards":["x"],"settings":{"memlock":"inherit","nodes":["sm"]},"limits":{"handles":1}}]}`))
	f.Add([]byte(`{"devices":[{"device":"pci-0000-3b-00-4","settings":{"memlock":"","nodes":null}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p plan.Plan
		if json.Unmarshal(data, &p) != nil {
			return
		}
		checkPlan(t, &p)
		_, _ = p.Spec(snap, plan.HookOptions{Path: "/hook", OnDenied: "clamp"}, "") // an error is fine
		here.WithPrepared(&p)
	})
}

// checkPlan checks what holds of every plan: it does not exclude itself, and it locks all
// that it uses but for monitoring, alone where it has something alone.
func checkPlan(t *testing.T, p *plan.Plan) {
	t.Helper()
	test.NoError(t, p.Overlap(p), test.Sprint("a claim excludes itself"))
	locks := map[string]bool{}
	for _, l := range p.Locks() {
		locks[l.HCA] = l.Shared
	}
	for _, d := range p.Devices {
		for _, hca := range d.HCAs() {
			if shared, locked := locks[hca]; !d.AdminAccess && (!locked || shared && d.ShareID == nil) {
				t.Errorf("HCA %s of device %s: locked %v, shared %v", hca, d.Device, locked, shared)
			}
		}
	}
}
