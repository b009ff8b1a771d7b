package plan_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
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

const gatewayByDefault = `, "defaults": {"network": {"mode": "macvlan", "ipam": "roce", "gateways": ["10.1.2.1"]}}`

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

func macvlan(change func(*plan.Network)) *plan.Network {
	n := &plan.Network{Mode: "macvlan", Interface: "rdma0"}
	if change != nil {
		change(n)
	}
	return n
}

// TestMergeNetwork has a case for each rule for network in docs/claims.md.
func TestMergeNetwork(t *testing.T) {
	moved := macvlan(func(n *plan.Network) { n.Mode = "move" })
	addressed := macvlan(func(n *plan.Network) { n.Addresses = []netip.Prefix{netip.MustParsePrefix("10.1.2.3/24")} })
	ipam := macvlan(func(n *plan.Network) { n.IPAM, n.IPAMConfig = "roce", json.RawMessage(hostLocal) })
	for name, tc := range map[string]struct {
		configs configs
		want    *plan.Network
	}{
		"mode: nobody":                   {nil, nil},
		"mode: allowed is not given":     {configs{fromClass(allAllowed)}, nil},
		"mode: class default":            {configs{fromClass(macvlanAllowed + `, "defaults": {"network": {"mode": "macvlan"}}`)}, macvlan(nil)},
		"mode: claim within allow":       {configs{fromClass(allAllowed), fromClaim(`"network": {"mode": "move"}`)}, moved},
		"mode: claim wants none":         {configs{fromClass(macvlanAllowed + `, "defaults": {"network": {"mode": "macvlan"}}`), fromClaim(`"network": {"mode": "none"}`)}, nil},
		"mode: none needs no permission": {configs{fromClaim(`"network": {"mode": "none"}`)}, nil},
		"mode: later class allow wins":   {configs{fromClass(macvlanAllowed), fromClass(`"allow": {"network": {"modes": ["move"]}}`), fromClaim(`"network": {"mode": "move"}`)}, moved},
		"mode: later claim config wins":  {configs{fromClass(allAllowed), fromClaim(`"network": {"mode": "move"}`), fromClaim(`"network": {"mode": "macvlan"}`)}, macvlan(nil)},
		"null is not set":                {configs{fromClaim(`"network": null`)}, nil},
		"interface: claim":               {configs{fromClass(macvlanAllowed), fromClaim(`"network": {"mode": "macvlan", "interface": "roce.1"}`)}, macvlan(func(n *plan.Network) { n.Interface = "roce.1" })},
		"interface: claim over default":  {configs{fromClass(macvlanAllowed + `, "defaults": {"network": {"mode": "macvlan", "interface": "a"}}`), fromClaim(`"network": {"interface": "b"}`)}, macvlan(func(n *plan.Network) { n.Interface = "b" })},
		"mtu: claim over default": {
			configs{
				fromClass(allAllowed + `, "defaults": {"network": {"mode": "macvlan", "mtu": 9000}}`),
				fromClaim(`"network": {"mtu": 4200}`),
			},
			macvlan(func(n *plan.Network) { n.MTU = 4200 }),
		},
		"addresses: claim within allow": {configs{fromClass(allAllowed), fromClaim(`"network": {"mode": "macvlan", "addresses": ["10.1.2.3/24"]}`)}, addressed},
		"addresses: claim over ipam":    {configs{fromClass(allAllowed + `, "defaults": {"network": {"mode": "macvlan", "ipam": "roce"}}`), fromClaim(`"network": {"addresses": ["10.1.2.3/24"]}`)}, addressed},
		"addresses: claim wants none":   {configs{fromClass(allAllowed + `, "defaults": {"network": {"mode": "macvlan", "ipam": "roce"}}`), fromClaim(`"network": {"addresses": []}`)}, macvlan(nil)},
		"ipam: class default":           {configs{fromClass(allAllowed + `, "defaults": {"network": {"mode": "macvlan", "ipam": "roce"}}`)}, ipam},
		"ipam: claim over addresses":    {configs{fromClass(allAllowed + `, "defaults": {"network": {"mode": "macvlan", "addresses": ["10.1.2.3/24"]}}`), fromClaim(`"network": {"ipam": "roce"}`)}, ipam},
		"ipam: the HCA's rail": {
			configs{
				fromClass(railAllowed),
				fromClaim(`"network": {"mode": "macvlan", "ipam": "rail"}`),
			},
			ipam,
		},
		"ipam: the HCA's rail by default": {
			configs{fromClass(railAllowed + `, "defaults": {"network": {"mode": "macvlan", "ipam": "rail"}}`)},
			ipam,
		},
		"gateways: claim within allow": {
			configs{
				fromClass(allAllowed),
				fromClaim(`"network": {"mode": "macvlan", "addresses": ["10.1.2.3/24"], "gateways": ["10.1.2.1"]}`),
			},
			macvlan(func(n *plan.Network) { n.Addresses, n.Gateways = addressed.Addresses, gateways("10.1.2.1") }),
		},
		"gateways: claim over default": {
			configs{
				fromClass(allAllowed + gatewayByDefault),
				fromClaim(`"network": {"gateways": ["10.1.2.2"]}`),
			},
			macvlan(func(n *plan.Network) {
				n.IPAM, n.IPAMConfig, n.Gateways = "roce", json.RawMessage(hostLocal), gateways("10.1.2.2")
			}),
		},
		"gateways: claim wants none": {
			configs{
				fromClass(allAllowed + gatewayByDefault),
				fromClaim(`"network": {"gateways": []}`),
			},
			macvlan(func(n *plan.Network) {
				n.IPAM, n.IPAMConfig, n.Gateways = "roce", json.RawMessage(hostLocal), []netip.Addr{}
			}),
		},
		"gateways: of the link": {
			configs{
				fromClass(`"allow": {"network": {"modes": ["macvlan"], "gateways": ["fe80::/10"]}}`),
				fromClaim(`"network": {"mode": "macvlan", "gateways": ["fe80::1"]}`),
			},
			macvlan(func(n *plan.Network) { n.Gateways = gateways("fe80::1") }),
		},
		"routes: claim within allow": {configs{fromClass(allAllowed), fromClaim(`"network": {"mode": "macvlan", "routes": [{"destination": "10.2.3.0/24", "gateway": "10.1.0.1"}]}`)}, macvlan(func(n *plan.Network) {
			n.Routes = []plan.Route{{Destination: netip.MustParsePrefix("10.2.3.0/24"), Gateway: netip.MustParseAddr("10.1.0.1")}}
		})},
		"routes: claim wants none":         {configs{fromClass(allAllowed + `, "defaults": {"network": {"mode": "macvlan", "routes": [{"destination": "10.2.0.0/16"}]}}`), fromClaim(`"network": {"routes": []}`)}, macvlan(nil)},
		"default routes: where allowed":    {configs{fromClass(`"allow": {"network": {"modes": ["macvlan"], "routes": ["0.0.0.0/0"]}}`), fromClaim(`"network": {"mode": "macvlan", "routes": [{"destination": "0.0.0.0/0"}]}`)}, macvlan(func(n *plan.Network) { n.Routes = []plan.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0")}} })},
		"a mode of another driver's claim": {configs{fromClaim(`"network": {"mode": "move"}`, "other")}, nil},
	} {
		p, err := plan.New(claim(one(result("nic", "pci-0000-3b-00-0")), tc.configs...), attaching())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		test.Eq(t, tc.want, p.Devices[0].Network, test.Cmp(cmp.Comparer(samePrefix), cmp.Comparer(sameAddr), cmp.Transformer("some", func(p []netip.Prefix) []string {
			var out []string
			for _, a := range p {
				out = append(out, a.String())
			}
			return out
		})), test.Sprint(name))
	}
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

func gateways(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func samePrefix(a, b netip.Prefix) bool { return a == b }
func sameAddr(a, b netip.Addr) bool     { return a == b }

// TestMergeNetworkRefuses has what no claim gets.
func TestMergeNetworkRefuses(t *testing.T) {
	const move = `"network": {"mode": "move"}`
	nobody := func(n *plan.Facts) { n.Networks = nil }
	for name, tc := range map[string]struct {
		device string // pci-0000-3b-00-0 if empty
		claim  string
		allow  string // allAllowed if empty
		change func(*resourceapi.ResourceClaim)
		node   func(*plan.Facts)
		want   []string
	}{
		"no class allows it": {
			claim: move,
			allow: `"allow": {}`,
			want:  []string{"network.mode: Forbidden: move is more than the DeviceClass allows", "allow.network.modes"},
		},
		"another mode is allowed": {claim: move, allow: macvlanAllowed, want: []string{"network.mode: Forbidden"}},
		"ipvlan, macvlan is allowed": {
			claim: `"network": {"mode": "ipvlan"}`,
			allow: macvlanAllowed,
			want:  []string{"network.mode: Forbidden: ipvlan"},
		},
		"an address of others": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.3.0.1/24"]}`,
			want:  []string{"network.addresses[0]: Forbidden: 10.3.0.1/24"},
		},
		"an address of a large net": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.0.1/8"]}`,
			want:  []string{"network.addresses[0]: Forbidden"},
		},
		"an address, none allowed": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.0.1/24"]}`,
			allow: macvlanAllowed,
			want:  []string{"allow.network.addresses"},
		},
		"more addresses than shares": { // a RoCE port of mlx5 has 128 GIDs, two for each address
			device: "shared-pci-0000-3b-00-0",
			claim:  `"network": {"mode": "macvlan", "addresses": ["10.1.0.1/24", "10.1.0.2/24"]}`,
			change: func(c *resourceapi.ResourceClaim) {
				for i := range c.Status.Allocation.Devices.Results {
					c.Status.Allocation.Devices.Results[i].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("1")}
				}
			},
			want: []string{"network.addresses: 2 addresses need as many shares", "ask for 2 shares in capacity.requests"},
		},
		"the default route": {
			claim: `"network": {"mode": "macvlan", "routes": [{"destination": "0.0.0.0/0"}]}`,
			want:  []string{"network.routes[0]: Forbidden: 0.0.0.0/0"},
		},
		"half of the default route": {
			claim: `"network": {"mode": "macvlan", "routes": [{"destination": "128.0.0.0/1"}]}`,
			want:  []string{"network.routes[0]: Forbidden"},
		},
		"another IPAM": {
			claim: `"network": {"mode": "macvlan", "ipam": "other"}`,
			want:  []string{"network.ipam: Forbidden: other"},
		},
		"an IPAM that is not there": {
			claim: `"network": {"mode": "macvlan", "ipam": "x"}`,
			allow: `"allow": {"network": {"modes": ["macvlan"], "ipam": ["x"]}}`,
			want:  []string{`ipam: the driver's configuration on this node has no entry "x"`},
		},
		"an IPAM and addresses": {
			claim: `"network": {"mode": "macvlan", "ipam": "roce", "addresses": ["10.1.0.1/24"]}`,
			want:  []string{"network.ipam: Forbidden: addresses are given already"},
		},
		"the pod's own interface": {
			claim: `"network": {"mode": "macvlan", "interface": "eth0"}`,
			want:  []string{"network.interface: Invalid value", "the pod has it already"},
		},
		"our name for the way": {
			claim: `"network": {"mode": "macvlan", "interface": "_rdma7"}`,
			want:  []string{"network.interface: Invalid value"},
		},
		"a path": {
			claim: `"network": {"mode": "macvlan", "interface": "../eth0"}`,
			want:  []string{"network.interface: Invalid value"},
		},
		"an unknown mode": {
			claim: `"network": {"mode": "ipvtap"}`,
			want:  []string{`network.mode: Unsupported value: "ipvtap"`, `"none", "move", "macvlan", "ipvlan"`},
		},
		"a VLAN, none allowed": {
			claim: `"network": {"mode": "macvlan", "vlan": 100}`,
			want:  []string{"network.vlan: Forbidden: 100 is more than the DeviceClass allows", "allow.network.vlans"},
		},
		"a VLAN of others": {
			claim: `"network": {"mode": "macvlan", "vlan": 100}`,
			allow: `"allow": {"network": {"modes": ["macvlan"], "vlans": [200]}}`,
			want:  []string{"network.vlan: Forbidden"},
		},
		"VLAN 0": {
			claim: `"network": {"mode": "macvlan", "vlan": 0}`,
			want:  []string{"network.vlan: Invalid value: 0: want 1 to 4094"},
		},
		"VLAN 4095": {
			claim: `"network": {"mode": "macvlan", "vlan": 4095}`,
			want:  []string{"network.vlan: Invalid value"},
		},
		"a VLAN is moved": {
			claim: `"network": {"mode": "move", "vlan": 200}`,
			allow: `"allow": {"network": {"modes": ["move"], "vlans": [200]}}`,
			want:  []string{"network: move gives the HCA's own interface, and a VLAN is on top of it"},
		},
		"an unknown field": {
			claim: `"network": {"mode": "move", "type": "/bin/sh"}`,
			want:  []string{`unknown field "network.type"`},
		},
		"an MTU, none is allowed": {
			claim: `"network": {"mode": "macvlan", "mtu": 1500}`, allow: macvlanAllowed,
			want: []string{"network.mtu: Forbidden: 1500 is more than the DeviceClass allows", "allow.network.mtuMax"},
		},
		"a larger MTU than allowed": {
			claim: `"network": {"mode": "macvlan", "mtu": 9001}`,
			want:  []string{"network.mtu: Forbidden: 9001"},
		},
		"a small MTU": {
			claim: `"network": {"mode": "macvlan", "mtu": 1}`,
			want:  []string{"network.mtu: Invalid value"},
		},
		"no prefix length": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.0.1"]}`,
			want:  []string{"network.addresses[0]: Invalid value", "10.1.2.3/24"},
		},
		"a route with host bits": {
			claim: `"network": {"mode": "macvlan", "routes": [{"destination": "10.2.0.1/24"}]}`,
			want:  []string{"want 10.2.0.0/24"},
		},
		"a gateway of another kind": {
			claim: `"network": {"mode": "macvlan", "routes": [{"destination": "10.2.0.0/24", "gateway": "fd00::1"}]}`,
			want:  []string{"routes[0].gateway: Invalid value"},
		},
		"no mode": {
			claim: `"network": {"interface": "rdma0"}`,
			want:  []string{"network: the mode is none"},
		},
		"a share is moved": {
			device: "shared-pci-0000-3b-00-0",
			claim:  move,
			want:   []string{"network: move takes the HCA's interface away from all others", "macvlan"},
		},
		"a group": {device: "group-all", claim: move, want: []string{"network: a group has several HCAs"}},
		"the function is Multus's": {
			device: "pci-0000-29-00-0",
			claim:  move,
			want:   []string{"example.com/roce (resourceName of its rule)", "leave network out of the claim"},
		},
		"nobody attaches interfaces": {
			claim: move,
			node:  nobody,
			want:  []string{"--attach-interfaces", "network.enabled"},
		},

		"a gateway of others": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.0.1/24"], "gateways": ["10.3.0.1"]}`,
			want:  []string{"network.gateways[0]: Forbidden: 10.3.0.1", "allow.network.gateways"},
		},
		"a gateway, none allowed": {
			claim: `"network": {"mode": "macvlan", "gateways": ["10.1.0.1"]}`, allow: macvlanAllowed,
			want: []string{"network.gateways[0]: Forbidden"},
		},
		"two gateways of a family": {
			claim: `"network": {"mode": "macvlan", "gateways": ["10.1.0.1", "10.1.0.2"]}`,
			want:  []string{"network.gateways[1]: Invalid value"},
		},
		"a gateway out of reach": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.0.1/24"], "gateways": ["10.1.9.1"]}`,
			want:  []string{"network: gateways: 10.1.9.1 is in no network of network.addresses"},
		},
		"the rail, and its name is allowed": {
			claim: `"network": {"mode": "macvlan", "ipam": "rail"}`, want: []string{"network.ipam: Forbidden: rail is more"},
		},
		"a name, and the rail is allowed": {
			claim: `"network": {"mode": "macvlan", "ipam": "roce"}`, allow: railAllowed,
			want: []string{"network.ipam: Forbidden: roce is more"},
		},
		"a rail without ipam": {
			device: "pci-0000-7b-00-0", claim: `"network": {"mode": "macvlan", "ipam": "rail"}`, allow: railAllowed,
			want: []string{"network: ipam: rail: the rule of HCA pci-0000-7b-00-0", "set ipam or railIPAM there"},
		},
		"the gateway of a pool": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.0.1/16"]}`, node: pooled,
			want: []string{"network: addresses[0]: ipam own reserves 10.1.0.1/16: 10.1.0.1 is the gateway of 10.1.0.0/16",
				"name an address outside of 10.1.0.0/16, or request one by network.ipam"},
		},
		"the gateway of a pool, by itself": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.3.4/16", "10.1.0.1/32"]}`, node: pooled,
			want: []string{"network: addresses[1]: ipam own reserves 10.1.0.1/32"},
		},
		"the gateway of a pool, moved": {
			claim: `"network": {"mode": "move", "addresses": ["10.1.0.1/24"]}`, node: pooled,
			want: []string{"addresses[0]: ipam own reserves"},
		},
		"another node's address": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.7.5/24"]}`, node: pooled,
			want: []string{"10.1.7.5 is in another node's block of 10.1.0.0/16: this node has 10.1.3.0/24"},
		},
		"another node's address by default of the class": {
			claim: `"network": {"mode": "macvlan"}`, node: pooled,
			allow: allAllowed + `, "defaults": {"network": {"addresses": ["10.1.7.5/24"]}}`,
			want:  []string{"10.1.7.5 is in another node's block"},
		},
		"the broadcast address": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.255.255/16"]}`, node: pooled,
			want: []string{"10.1.255.255 is the first or last address of 10.1.0.0/16"},
		},
		"the first address of the node's block": {
			claim: `"network": {"mode": "macvlan", "addresses": ["10.1.3.0/16"]}`, node: pooled,
			want: []string{"10.1.3.0 is the first or last address of this node's block"},
		},
		"an address where the node has no block": {
			claim: `"network": {"mode": "macvlan", "addresses": ["fd00:78:0:4::1/64"]}`, node: pooled,
			want: []string{"ipam rail2 reserves", "this node has no block of it (this node has no block)"},
		},
		"an IPv4 address as IPv6": {
			claim: `"network": {"mode": "macvlan", "addresses": ["::ffff:10.1.0.1/112"]}`, node: pooled,
			want: []string{"network.addresses[0]: Invalid value"},
		},
		"a rail without a block": {
			device: "pci-0000-5b-00-0", claim: `"network": {"mode": "macvlan", "ipam": "rail"}`, allow: railAllowed,
			want: []string{"network: ipam rail2: this node has no block"},
		},
	} {
		device, allow, node := tc.device, tc.allow, attaching()
		if device == "" {
			device = "pci-0000-3b-00-0"
		}
		if allow == "" {
			allow = allAllowed
		}
		c := claim(one(result("nic", device)), fromClass(allow), fromClaim(tc.claim))
		if tc.change != nil {
			tc.change(c)
		}
		if tc.node != nil {
			tc.node(&node)
		}
		_, err := plan.New(c, node)
		if err == nil {
			t.Errorf("%s: the plan was made", name)
			continue
		}
		for _, part := range append(tc.want, "claim team-a/nics") {
			test.StrContains(t, err.Error(), part, test.Sprintf("%s: error does not say %q: %v", name, part, err))
		}
	}
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
	test.Eq(t, made, again, test.Cmp(cmp.Comparer(samePrefix), cmp.Comparer(sameAddr)),
		test.Sprint("prepared again"))
}

// TestNetworkSpec: the hook looks for the interface, and the container knows its name.
func TestNetworkSpec(t *testing.T) {
	c := claim(one(result("nic", "pci-0000-3b-00-0")), fromClass(allAllowed), fromClaim(`"network": {"mode": "macvlan"}, "memlock": "inherit"`))
	p, err := plan.New(c, attaching())
	must.NoError(t, err)
	snap := rdmatest.Snapshot(t, "hgx-h100")
	spec, err := p.Spec(snap, plan.HookOptions{Path: "/opt/hook", OnDenied: "clamp"})
	must.NoError(t, err)
	b, err := json.Marshal(spec)
	must.NoError(t, err)
	for _, want := range []string{`"RDMA_INTERFACE_PCI_0000_3B_00_0=rdma0"`, `"--interface","rdma0:rdma.dev/claim/` + string(c.UID) + `/pci-0000-3b-00-0"`} {
		test.StrContains(t, string(b), want, test.Sprintf("the spec has no %s: %s", want, b))
	}
	_, err = p.Spec(snap, plan.HookOptions{})
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
