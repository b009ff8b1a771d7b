package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// TestIPAM: an entry with a type is the section of a CNI configuration as it is, and one without divides a subnet.
func TestIPAM(t *testing.T) {
	c := parse(t, `
ipam:
  plugin: &p {type: host-local, subnet: 10.1.0.0/16, perNode: [anything], routes: [{dst: 10.2.0.0/16}]}
  merged: {<<: *p, perNode: 1}
  roce:
    subnet: 10.78.0.0/16
    perNode: 24
    clusterCIDR: [10.244.0.0/16]
    gateway: 10.78.0.1
`)
	const theRest = `"subnet":"10.1.0.0/16","type":"host-local"}`
	want := map[string]json.RawMessage{
		"plugin": json.RawMessage(`{"perNode":["anything"],"routes":[{"dst":"10.2.0.0/16"}],` + theRest),
		"merged": json.RawMessage(`{"perNode":1,"routes":[{"dst":"10.2.0.0/16"}],` + theRest),
	}
	test.Eq(t, want, c.IPAM(), test.Sprint("sections"))
	b, err := c.Pools()["roce"].Of(blocks.Node{Name: "n", PodCIDRs: []string{"10.244.7.0/24"}})
	test.True(t, err == nil && len(c.Pools()) == 1 && b.Block.String() == "10.78.7.0/24" &&
		b.Gateway.String() == "10.78.0.1", test.Sprintf("%d pools, block %+v, %v", len(c.Pools()), b, err))
}

const fourIPAM = `
ipam: {a: {type: host-local}, b: {type: host-local}, c: {type: host-local}, d: {type: host-local}}
`

// TestRailIPAM: which entry an HCA's rail has. A card that is missing leaves all cards of its rule without an entry, as
// it leaves them without a number.
func TestRailIPAM(t *testing.T) {
	for name, tc := range map[string]struct {
		rules string
		want  map[string]string // by ibdev; those that are not named have none
	}{
		"nobody":   {`rules: [{name: all}]`, nil},
		"one rule": {`rules: [{name: all, ipam: a}]`, map[string]string{"mlx5_0": "a", "mlx5_1": "a", "mlx5_2": "a"}},
		"rails": {
			`rules: [{name: all, rails: 2, railIPAM: [a, b]}]`,
			map[string]string{"mlx5_0": "a", "mlx5_1": "b", "mlx5_2": "a"},
		},
		"another count": {`rules: [{name: all, rails: 3, railIPAM: [a, b, c]}]`, nil},
		"a rule for each": {`rules:
- {name: first, rail: 0, ipam: c, selectors: [{cel: {expression: 'device.attributes["rdma.dev"].ibdev == "mlx5_1"'}}]}
- {name: second, rail: 1, ipam: d}
`, map[string]string{"mlx5_0": "d", "mlx5_1": "c", "mlx5_2": "d"}},
	} {
		got := map[string]string{}
		for _, d := range parse(t, fourIPAM+tc.rules).Apply(snapshot(t, "roce-sriov"), policy.State{}).Decisions {
			got[d.HCA.IBDev] = d.IPAM
		}
		for _, ibdev := range []string{"mlx5_0", "mlx5_1", "mlx5_2"} {
			_, ok := got[ibdev]
			test.True(t, ok && got[ibdev] == tc.want[ibdev],
				test.Sprintf("%s: %s has %q, want %q", name, ibdev, got[ibdev], tc.want[ibdev]))
		}
	}
}
