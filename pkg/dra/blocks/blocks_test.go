package blocks_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

const label = blocks.LabelPrefix + "rdma-block"

// pool makes a pool, and returns the problems with it.
func pool(s blocks.Settings) (*blocks.Pool, string) {
	var problems []string
	p := blocks.New(s, func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf(field+": "+format, args...).Error())
	})
	return p, strings.Join(problems, "\n")
}

func set(subnet string, perNode int64, cluster ...string) blocks.Settings {
	return blocks.Settings{Subnet: subnet, PerNode: &perNode, ClusterCIDR: cluster}
}

func labelled(subnet string, perNode int64, label string) blocks.Settings {
	s := set(subnet, perNode)
	s.Label = label
	return s
}

// TestOf: the block of a node is that of its pod CIDR's place in the cluster's networks, or of its label.
func TestOf(t *testing.T) {
	masked := set("10.78.0.0/16", 28, "10.0.0.0/16")
	masked.NodeCIDRMaskSize = new(int64(26))
	for _, tc := range []struct {
		settings blocks.Settings
		pods     []string
		label    string
		want     string // "" for an error
		says     string
	}{
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"10.244.0.0/24"}, "", "10.78.0.0/24", ""},
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"10.244.255.0/24"}, "", "10.78.255.0/24", ""},
		{set("10.78.0.0/16", 26, "10.244.0.0/17", "10.9.0.0/20"), []string{"10.9.15.0/24"}, "", "10.78.35.192/26", ""},
		{set("10.78.0.0/16", 26, "10.9.0.0/20", "10.244.0.0/17"), []string{"10.9.15.0/24"}, "", "10.78.3.192/26", ""},
		{masked, []string{"10.0.255.192/26"}, "", "10.78.63.240/28", ""},
		{set("fd00:78::/48", 64, "fd00:1::/56"), []string{"10.1.2.0/24", "fd00:1:0:7::/64"}, "", "fd00:78:0:7::/64", ""},
		{set("10.78.0.0/16", 24, "fd00:1::/56"), []string{"10.1.2.0/24", "fd00:1:0:ff::/64"}, "", "10.78.255.0/24", ""},
		{labelled("10.78.0.0/16", 24, label), nil, "0", "10.78.0.0/24", ""},
		{labelled("10.78.0.0/16", 24, label), nil, "255", "10.78.255.0/24", ""},
		{labelled("fd00:78::/32", 64, label), nil, "4294967295", "fd00:78:ffff:ffff::/64", ""},

		{set("10.78.0.0/16", 24, "10.244.0.0/16"), nil, "", "", "node n1 has no pod CIDR (spec.podCIDRs)"},
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"fd00::/64"}, "", "", "node n1 has no pod CIDR"},
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"10.245.0.0/24"}, "", "",
			"10.245.0.0/24 of node n1 is in none of the networks of clusterCIDR, [10.244.0.0/16]"},
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"10.244.4.0/25"}, "", "",
			"another length than /24, so its block could be another node's"},
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"10.0.0.0/8"}, "", "", "in none of the networks"},
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"10.244.1.0/24", "10.244.2.0/24"}, "", "", "ambiguous"},
		{set("10.78.0.0/16", 24, "10.244.0.0/16"), []string{"none"}, "", "", `read pod CIDR "none" of node n1`},
		{labelled("10.78.0.0/16", 24, label), []string{"fd00::/64", "10.78.3.0/24"}, "1", "",
			"subnet 10.78.0.0/16 overlaps pod CIDR 10.78.3.0/24 of node n1"},
		{labelled("10.78.0.0/16", 24, label), nil, "", "", "node n1 has no label " + label},
		{labelled("10.78.0.0/16", 24, label), nil, "256", "",
			"node n1 has block number 256, and 10.78.0.0/16 has 256 blocks of /24"},
		{labelled("10.78.0.0/16", 24, label), nil, "07", "", `is "07": want a number from 0 to 255`},
		{labelled("10.78.0.0/16", 24, label), nil, "-1", "", "want a number"},
		{labelled("10.78.0.0/16", 24, label), nil, "99999999999999999999", "", "want a number"},
	} {
		p, problems := pool(tc.settings)
		must.Eq(t, "", problems, must.Sprintf("%+v", tc.settings))
		node := blocks.Node{Name: "n1", PodCIDRs: tc.pods}
		if tc.label != "" {
			node.Labels = map[string]string{label: tc.label, "rdma-block": "7"}
		}
		b, err := p.Of(node)
		if (err == nil) != (tc.want != "") || err == nil && b.Block.String() != tc.want ||
			err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v, %v, label %q: %s, %v; want %s %s", tc.settings.ClusterCIDR, tc.pods, tc.label, b.Block, err,
				tc.want, tc.says)
		}
	}
}

// TestDisjoint: no two nodes of a cluster have a common address, and each block is within the subnet.
func TestDisjoint(t *testing.T) {
	p, problems := pool(set("10.78.0.0/18", 26, "10.244.0.0/17", "10.9.0.0/17"))
	must.Eq(t, "", problems)
	by := map[string]string{}
	for _, cluster := range []string{"10.244", "10.9"} {
		for i := range 128 {
			pods := fmt.Sprintf("%s.%d.0/24", cluster, i)
			b, err := p.Of(blocks.Node{Name: pods, PodCIDRs: []string{pods}})
			must.True(t, err == nil && p.Subnet.Overlaps(b.Block), must.Sprint(b, err))
			test.Eq(t, "", by[b.Block.String()],
				test.Sprintf("%s is of %s and %s", b.Block, by[b.Block.String()], pods))
			by[b.Block.String()] = pods
		}
	}
}

// TestBadSettings: what is refused when the driver's configuration is read.
func TestBadSettings(t *testing.T) {
	golden.Cases(t, "bad", func(t *testing.T, s blocks.Settings) string {
		_, problems := pool(s)
		test.True(t, problems != "" && !strings.Contains(problems, "\n"),
			test.Sprintf("want one problem: %q", problems))
		return problems
	})
}

// TestNext gives out a whole block: each usable address once, in order, then none. What becomes free is given only
// after all others.
func TestNext(t *testing.T) {
	s := labelled("10.78.0.0/24", 29, label)
	s.Gateway = "10.78.0.10"
	p, problems := pool(s)
	must.Eq(t, "", problems)
	b, err := p.Of(blocks.Node{Labels: map[string]string{label: "1"}})
	must.True(t, err == nil && b.Size() == 5, must.Sprintf("%v: %d addresses, %v", b, b.Size(), err))
	used := map[netip.Addr]bool{}
	var got []string
	next := func(after netip.Addr) netip.Addr {
		a, ok := b.Next(after, func(a netip.Addr) bool { return used[a] })
		if !ok {
			return netip.Addr{}
		}
		used[a] = true
		got = append(got, b.Prefix(a).String())
		return a
	}
	var last netip.Addr
	for range 5 {
		last = next(last)
	}
	want := []string{"10.78.0.9/24", "10.78.0.11/24", "10.78.0.12/24", "10.78.0.13/24", "10.78.0.14/24"}
	test.SliceEqOp(t, want, got, test.Sprint("given"))
	a := next(last)
	test.True(t, !a.IsValid(), test.Sprintf("the block is used up, and gave %s", a))
	clear(used)
	used[netip.MustParseAddr("10.78.0.9")] = true
	a = next(last)
	test.Eq(t, "10.78.0.11", a.String(), test.Sprintf("after the last one it gave %s", a))
	a = next(netip.MustParseAddr("10.78.0.12"))
	test.Eq(t, "10.78.0.13", a.String(), test.Sprintf("10.78.0.12 is free again, and after it it gave %s", a))
}

// TestNextIPv6: a large block costs no more than its used addresses.
func TestNextIPv6(t *testing.T) {
	p, _ := pool(labelled("fd00::/48", 64, label))
	b, err := p.Of(blocks.Node{Labels: map[string]string{label: "1"}})
	must.True(t, err == nil && b.Size() == 1<<64-2, must.Sprint(b.Size(), err))
	asked := 0
	a, ok := b.Next(netip.Addr{}, func(a netip.Addr) bool { asked++; return asked < 3 })
	test.True(t, ok && asked == 3 && b.Prefix(a).String() == "fd00:0:0:1::3/48",
		test.Sprintf("%s after %d questions", a, asked))
}

// TestRead: the configuration of a block is known from that of a CNI plugin.
func TestRead(t *testing.T) {
	p, _ := pool(labelled("10.78.0.0/16", 24, label))
	b, err := p.Of(blocks.Node{Labels: map[string]string{label: "1"}})
	must.NoError(t, err)
	read, ok, err := blocks.Read(b.Config())
	test.True(t, read == b && ok && err == nil, test.Sprintf("%+v, %v, %v, want %+v", read, ok, err, b))
	for text, own := range map[string]bool{`{"type": "host-local"}`: false, `{`: false,
		`{"type": "rdma.dev/block"}`: true} {
		_, ok, err := blocks.Read([]byte(text))
		test.True(t, ok == own && (err != nil) == own, test.Sprintf("%s: %v, %v", text, ok, err))
	}
}

// TestReserved: no claim may name the gateway, an address that networks treat specially, one of another node, or one
// that the block gives to nobody. The rest of the node's block is free, and so is whatever is not of the pool.
func TestReserved(t *testing.T) {
	four := blocks.Block{
		Subnet: netip.MustParsePrefix("10.78.0.0/16"), Block: netip.MustParsePrefix("10.78.3.0/24"),
		Gateway: netip.MustParseAddr("10.78.0.1"),
	}
	six := blocks.Block{
		Subnet: netip.MustParsePrefix("fd00:78::/48"), Block: netip.MustParsePrefix("fd00:78:0:3::/64"),
		Gateway: netip.MustParseAddr("fd00:78:0:3::1"), // in the block of the node itself
	}
	none := blocks.Block{Subnet: four.Subnet, Gateway: four.Gateway}
	for _, tc := range []struct {
		block   blocks.Block
		address string
		want    string // "" for a free address
	}{
		{four, "10.78.0.1", "the gateway of 10.78.0.0/16"},
		{four, "::ffff:10.78.0.1", "10.78.0.1 is the gateway"},
		{four, "10.78.0.0", "treat specially"},
		{four, "10.78.255.255", "treat specially"},
		{four, "10.78.7.5", "in another node's block of 10.78.0.0/16: this node has 10.78.3.0/24"},
		{four, "10.78.2.255", "in another node's block"},
		{four, "10.78.4.0", "in another node's block"},
		{four, "10.78.3.0", "given to nobody"},
		{four, "10.78.3.255", "given to nobody"},
		{four, "10.78.3.1", ""},
		{four, "10.78.3.254", ""},
		{four, "10.77.255.255", ""},
		{four, "10.79.0.0", ""},
		{four, "fd00:78::1", ""},
		{none, "10.78.0.1", "the gateway"},
		{none, "10.78.3.1", "this node has no block of it"},
		{none, "10.79.3.1", ""},
		{six, "fd00:78:0:3::1", "the gateway"},
		{six, "fd00:78::", "treat specially"}, // subnet-router anycast
		{six, "fd00:78:0:ffff:ffff:ffff:ffff:ffff", "treat specially"},
		{six, "fd00:78:0:4::1", "in another node's block"},
		{six, "fd00:78:0:3::", "given to nobody"},
		{six, "fd00:78:0:3:ffff:ffff:ffff:ffff", "given to nobody"},
		{six, "fd00:78:0:3::2", ""},
		{six, "10.78.0.1", ""},
	} {
		err := tc.block.Reserved(netip.MustParseAddr(tc.address))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s in %+v: %v, want %q", tc.address, tc.block, err, tc.want)
		}
	}
}

// TestReservedIsNotGiven: what no claim may name, no pod gets by IPAM either, and the other way round.
func TestReservedIsNotGiven(t *testing.T) {
	for _, gateway := range []string{"10.78.0.1", "10.78.3.1", "10.78.3.6"} {
		b := blocks.Block{
			Subnet: netip.MustParsePrefix("10.78.0.0/16"), Block: netip.MustParsePrefix("10.78.3.0/29"),
			Gateway: netip.MustParseAddr(gateway),
		}
		given := map[netip.Addr]bool{}
		for a, ok := b.Next(netip.Addr{}, func(netip.Addr) bool { return false }); ok && !given[a]; {
			given[a] = true
			a, ok = b.Next(a, func(netip.Addr) bool { return false })
		}
		for a := netip.MustParseAddr("10.78.2.0"); a.Less(netip.MustParseAddr("10.78.4.1")); a = a.Next() {
			test.Eq(t, given[a], b.Reserved(a) == nil, test.Sprintf("gateway %s: %s is free for claims", gateway, a))
		}
	}
}
