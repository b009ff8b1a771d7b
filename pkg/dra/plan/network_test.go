package plan_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const railBlock = `{"type": "rdma.dev/block"}`

const hostLocal = `{"type": "host-local"}`

// attaching is a node that attaches interfaces.
func attaching() plan.Facts {
	node := here
	node.Networks = &plan.Networks{
		IPAM:   map[string]json.RawMessage{"roce": json.RawMessage(hostLocal), "rail1": json.RawMessage(railBlock)},
		NoIPAM: map[string]error{"rail2": errors.New("this node has no block")},
		HCAs: map[string]plan.HCANetwork{
			"pci-0000-3b-00-0": {IPAM: "roce"}, "pci-0000-4b-00-0": {IPAM: "rail1"}, "pci-0000-5b-00-0": {IPAM: "rail2"},
			"pci-0000-6b-00-0": {IPAM: "gone"}, "pci-0000-29-00-0": {ResourceName: "example.com/roce"},
		},
	}
	return node
}

const (
	macvlanAllowed = `"allow": {"network": {"modes": ["macvlan"]}}`
	allAllowed     = `"allow": {"network": {"modes": ["move", "macvlan"], "addresses": ["10.1.0.0/16", "fd00::/8"], ` +
		`"ipam": ["roce"], "gateways": ["10.1.0.0/16"], "routes": ["10.2.0.0/16"], "mtuMax": 9000}}`
)

const railAllowed = `"allow": {"network": {"modes": ["macvlan"], "ipam": ["rail"]}}`

// pooled is a node that owns the block 10.1.3.0/24 of one pool, and no block of another.
func pooled(f *plan.Facts) {
	f.Networks.Pools = map[string]blocks.Block{
		"own": {
			Subnet: netip.MustParsePrefix("10.1.0.0/16"), Block: netip.MustParsePrefix("10.1.3.0/24"),
			Gateway: netip.MustParseAddr("10.1.0.1"),
		},
		"rail2": {Subnet: netip.MustParsePrefix("fd00:78::/48"), Gateway: netip.MustParseAddr("fd00:78::1")},
	}
}

// networkCase is a claim for one HCA. The allowances "all", "macvlan" and "rail" are those above.
type networkCase struct {
	Device, Request string
	Class           []struct{ Allow, Defaults json.RawMessage }
	Claim           []json.RawMessage
	Shares          resource.Quantity
	Node            string
}

// TestMergeNetwork has a case for each rule for network in docs/claims.md, and what no claim gets.
func TestMergeNetwork(t *testing.T) {
	allowances := map[string]string{`"all"`: allAllowed, `"macvlan"`: macvlanAllowed, `"rail"`: railAllowed}
	nodes := map[string]func(*plan.Facts){
		"": func(*plan.Facts) {}, "has pools": pooled, "attaches nothing": func(n *plan.Facts) { n.Networks = nil },
	}
	golden.Cases(t, "network", func(t *testing.T, in networkCase) string {
		node, r := attaching(), result("nic", cmp.Or(in.Device, "pci-0000-3b-00-0"))
		nodes[in.Node](&node)
		if !in.Shares.IsZero() {
			r = consuming(r, "shares", in.Shares.String())
		}
		var all configs
		for _, c := range in.Class {
			fields := cmp.Or(allowances[string(c.Allow)], `"allow": `+string(c.Allow))
			if c.Defaults != nil {
				fields += `, "defaults": ` + string(c.Defaults)
			}
			all = append(all, fromClass(fields))
		}
		for _, c := range in.Claim {
			all = append(all, fromClaim(string(c[1:len(c)-1]), cmp.Or(in.Request, "nic")))
		}
		p, err := plan.New(claim(one(r), all...), node)
		if err != nil {
			return err.Error()
		}
		network, err := json.Marshal(p.Devices[0].Network)
		must.NoError(t, err)
		return string(network)
	})
}

// TestNotReserved: a claim may name an address of the node's own block, and one of no pool. A claim that was prepared
// before the pool existed keeps its address, because its pod may run.
func TestNotReserved(t *testing.T) {
	node := attaching()
	pooled(&node)
	for _, address := range []string{"10.1.3.4/16", "10.1.3.4/32", "fd00:79::1/48"} {
		c := claim(one(result("nic", "pci-0000-3b-00-0")), fromClass(allAllowed),
			fromClaim(`"network": {"mode": "macvlan", "addresses": ["`+address+`"]}`))
		_, err := plan.New(c, node)
		test.NoError(t, err, test.Sprint(address))
	}
	c := claim(one(result("nic", "pci-0000-3b-00-0")), fromClass(allAllowed),
		fromClaim(`"network": {"mode": "macvlan", "addresses": ["10.1.0.1/16"]}`))
	made, err := plan.New(c, attaching())
	must.NoError(t, err)
	again, err := plan.New(c, node.WithPrepared(made))
	test.True(t, err == nil &&
		slices.Equal(again.Devices[0].Network.Addresses, made.Devices[0].Network.Addresses),
		test.Sprintf("prepared again: %v", err))
}

// TestNetworkNames: interfaces of one claim do not meet, and an administrator's access has none.
func TestNetworkNames(t *testing.T) {
	results := []resourceapi.DeviceRequestAllocationResult{
		result("a", "pci-0000-19-00-0"), result("b", "pci-0000-3b-00-0"), result("c", "pci-0000-4b-00-0"), admin(result("d", "pci-0000-5b-00-0")),
	}
	class := fromClass(`"allow": {"network": {"modes": ["macvlan"], "addresses": ["10.0.0.0/8"]}}, "defaults": {"network": {"mode": "macvlan"}}`)
	p, err := plan.New(claim(results, class, fromClaim(`"network": {"interface": "rdma0"}`, "b")), attaching())
	must.NoError(t, err)
	var names []string
	for _, d := range p.Devices {
		if d.Network != nil {
			names = append(names, d.Network.Interface)
		}
	}
	test.Eq(t, []string{"rdma1", "rdma0", "rdma2"}, names, test.Sprint("names"))
	for _, same := range []string{`"network": {"interface": "x"}`, `"network": {"addresses": ["10.0.0.1/24"]}`} {
		_, err := plan.New(claim(results, class, fromClaim(same)), attaching())
		test.ErrorContains(t, err, "two devices of the claim would", test.Sprint(same))
	}
}

// TestNetworkNamesOfPod: the interfaces of a pod's claims do not meet. The claim that is prepared first has the first
// name, keeps it, and nobody can ask for it.
func TestNetworkNamesOfPod(t *testing.T) {
	class := fromClass(`"allow": {"network": {"modes": ["macvlan"]}}, "defaults": {"network": {"mode": "macvlan"}}`)
	var prepared []*plan.Plan
	node := attaching()
	prepare := func(name, pod string, made *plan.Plan, more ...resourceapi.DeviceAllocationConfiguration) (*plan.Plan, error) {
		c := claim(one(result("nic", "pci-0000-19-00-0")), append(configs{class}, more...)...)
		c.Name, c.UID = name, types.UID("uid-of-"+name)
		c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod, UID: types.UID(pod)}}
		node.Networks.Others = slices.DeleteFunc(slices.Clone(prepared), func(p *plan.Plan) bool {
			return p.UID == c.UID || !slices.Contains(p.Pods, types.UID(pod))
		})
		return plan.New(c, node.WithPrepared(made))
	}
	for _, tc := range []struct{ name, pod, config, want string }{
		{"first", "a", "", "rdma0"},
		{"second", "a", "", "rdma1"},
		{"of-another", "b", "", "rdma0"},
		{"named", "a", `"network": {"interface": "rail0"}`, "rail0"},
		{"third", "a", "", "rdma2"},
	} {
		var more configs
		if tc.config != "" {
			more = configs{fromClaim(tc.config)}
		}
		p, err := prepare(tc.name, tc.pod, nil, more...)
		must.NoError(t, err)
		test.Eq(t, tc.want, p.Devices[0].Network.Interface, test.Sprint(tc.name))
		prepared = append(prepared, p)
	}
	prepared = slices.DeleteFunc(prepared, func(p *plan.Plan) bool { return p.Name == "first" })
	again, err := prepare("second", "a", prepared[0])
	test.True(t, err == nil && again.Devices[0].Network.Interface == "rdma1",
		test.Sprintf("prepared again: %+v, %v", again, err))
	_, err = prepare("late", "a", nil, fromClaim(`"network": {"interface": "rdma2"}`))
	test.ErrorContains(t, err, "claim team-a/third has rdma2 in the same pod", test.Sprint("a name that is taken"))
}

// TestNetworkAgain: a claim that was prepared keeps what it has, whatever the node says now.
func TestNetworkAgain(t *testing.T) {
	c := claim(one(result("nic", "pci-0000-3b-00-0")), fromClass(allAllowed), fromClaim(`"network": {"mode": "macvlan", "ipam": "roce"}`))
	made, err := plan.New(c, attaching())
	must.NoError(t, err)
	again, err := plan.New(c, here.WithPrepared(made))
	must.NoError(t, err)
	test.Eq(t, made, again, test.Cmp(cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})),
		test.Sprint("prepared again"))
}

// TestNetworkSpec: the hook looks for the interface, and the container knows its name.
func TestNetworkSpec(t *testing.T) {
	c := claim(one(result("nic", "pci-0000-3b-00-0")), fromClass(allAllowed), fromClaim(`"network": {"mode": "macvlan"}, "memlock": "inherit"`))
	p, err := plan.New(c, attaching())
	must.NoError(t, err)
	snap := rdmatest.Snapshot(t, "hgx-h100")
	spec, err := p.Spec(snap, plan.HookOptions{Path: "/opt/hook", OnDenied: "clamp"}, "")
	must.NoError(t, err)
	b, err := json.Marshal(spec)
	must.NoError(t, err)
	for _, want := range []string{`"RDMA_INTERFACE_PCI_0000_3B_00_0=rdma0"`, `"--interface","rdma0:rdma.dev/claim/` + string(c.UID) + `/pci-0000-3b-00-0"`} {
		test.StrContains(t, string(b), want, test.Sprintf("the spec has no %s: %s", want, b))
	}
	_, err = p.Spec(snap, plan.HookOptions{}, "")
	test.ErrorContains(t, err, "--hook-dir", test.Sprint("without a hook"))
}

// TestRails: one request for several HCAs has the addresses of each one's rail. A claim that is prepared again keeps
// them, whatever the configuration of the node is by then.
func TestRails(t *testing.T) {
	c := claim([]resourceapi.DeviceRequestAllocationResult{
		result("nics", "pci-0000-3b-00-0"), result("nics", "pci-0000-4b-00-0"), result("named", "pci-0000-4b-00-0"),
	},
		fromClass(`"allow": {"network": {"modes": ["macvlan"], "ipam": ["rail", "roce"]}}`),
		fromClaim(`"network": {"mode": "macvlan", "ipam": "rail"}`, "nics"),
		fromClaim(`"network": {"mode": "macvlan", "ipam": "roce"}`, "named"),
	)
	want := []string{"roce " + hostLocal, "rail1 " + railBlock, "roce " + hostLocal}
	of := func(p *plan.Plan, err error) (got []string) {
		t.Helper()
		must.NoError(t, err)
		for _, d := range p.Devices {
			got = append(got, d.Network.IPAM+" "+string(d.Network.IPAMConfig))
		}
		return got
	}
	made, err := plan.New(c, attaching())
	test.Eq(t, want, of(made, err))
	changed := attaching()
	changed.Networks.HCAs, changed.Networks.IPAM = map[string]plan.HCANetwork{"pci-0000-3b-00-0": {IPAM: "rail1"}}, nil
	test.Eq(t, want, of(plan.New(c, changed.WithPrepared(made))), test.Sprint("prepared again"))
}
