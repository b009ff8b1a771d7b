package policy_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

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
