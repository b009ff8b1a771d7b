package policy_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestExpected: what rules expect of links. The cards of a rule are compared only if it numbers all of them.
func TestExpected(t *testing.T) {
	snap := rdmatest.Snapshot(t, "dgx-h100-ib")
	families := map[string]bool{}
	for i := range snap.HCAs {
		families[snap.HCAs[i].Family()] = true
	}
	link, err := rdma.ParsePCIeLink("32x16")
	must.NoError(t, err)
	for rule, want := range map[string]health.Expected{
		"publish: exclusive":                    {},
		"rail: 3":                               {},
		"rails: 99":                             {Peers: "all"},
		fmt.Sprintf("rails: %d", len(families)): {Peers: "all", Alike: true},
		"minRateGbps: 400, minPCIe: 32x16":      {MinRateMbps: 400_000, MinPCIe: link},
		"unused: true":                          {Unused: true},
	} {
		c, err := policy.Parse([]byte(header + "rules: [{name: all, " + rule + "}]\n"))
		must.NoError(t, err)
		expected := c.Apply(snap, policy.State{}).Expected()
		test.Eq(t, len(expected), len(snap.HCAs), test.Sprint(rule))
		for name, got := range expected {
			test.EqOp(t, want, got, test.Sprintf("%s: of %s is expected", rule, name))
		}
	}
}

// TestUses: a feature is used only if a slice has a field of it, such as counters where devices exclude each other.
func TestUses(t *testing.T) {
	state := policy.State{Taints: map[string][]resourceapi.DeviceTaint{"gone": {{Key: "rdma.dev/x"}}}}
	for machine, want := range map[string]map[string]bool{
		"azure-ndv5-ib": {}, "roce-sriov": {featuregate.PartitionableDevices: true},
	} {
		r := parse(t, "partitioning: true").Apply(snapshot(t, machine), state)
		test.Eq(t, want, policy.Uses(r.Slices()), test.Sprint(machine))
	}
}
