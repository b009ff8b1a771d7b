package leaf_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const device = "pci-0000-18-00-0"

// port is port 1 of mlx5_0, whose interface eth0 has index 3.
func port() leaf.Port {
	return leaf.Port{
		PortID: health.PortID{Device: device, Port: 1}, First: true, IBDev: "mlx5_0", Netdev: "eth0",
		GUIDs: []rdma.GUID{0xa088c203003f1800}, Interfaces: []leaf.Interface{{Name: "eth0", Index: 3}},
	}
}

// bonded is the same with a bond of two interfaces.
func bonded() leaf.Port {
	p := port()
	p.Netdev, p.Interfaces = "bond0", []leaf.Interface{{Name: "eth0", Index: 3}, {Name: "eth1", Index: 4}}
	return p
}

func neighbor(name, port string) networkd.Neighbor {
	return networkd.Neighbor{Chassis: "chassis of " + name, System: name, Port: port, Switch: true}
}

// heard has the neighbors of interface 3, and then of 4.
func heard(on ...[]networkd.Neighbor) map[int]networkd.Heard {
	out := map[int]networkd.Heard{}
	for i, neighbors := range on {
		out[3+i] = networkd.Heard{Neighbors: neighbors}
	}
	return out
}

type neighbors = []networkd.Neighbor

// table returns a checked table.
func table(t *testing.T, links ...v1alpha1.Link) *v1alpha1.LinkTable {
	t.Helper()
	out := &v1alpha1.LinkTable{APIVersion: "rdma.dev/v1alpha1", Kind: "LinkTable", Links: links}
	out.Time = noon.Add(-time.Minute)
	must.NoError(t, out.Check(false))
	return out
}

func TestResolve(t *testing.T) {
	leaf1, leaf2 := neighbor("leaf-1", "Eth1"), neighbor("leaf-2", "Eth2")
	host := networkd.Neighbor{Chassis: "02:00:00:00:00:01", System: "dpu", Port: "p0"}
	nameless := networkd.Neighbor{Chassis: "0c:42:a1:00:00:07", Port: "7"}
	unnamed, twin := leaf1, leaf1
	unnamed.System, twin.Chassis = "localhost", "another one"
	ofNode := v1alpha1.Link{Node: "a", HCA: "mlx5_0", Leaf: "leaf-1", Port: "Eth1", Fabric: "blue"}
	ofOther := v1alpha1.Link{Node: "a", HCA: "mlx5_0", Leaf: "leaf-2"}
	byGUID := v1alpha1.Link{GUID: "0xa088c203003f1800", Leaf: "leaf-1"}
	byLabel := v1alpha1.Link{NodeLabel: "example.com/leaf.{netdev}", Fabric: "blue"}
	ofFile, ofTable := []leaf.Source{leaf.File}, []leaf.Source{leaf.Table}
	eth1, blue := leaf.Link{Leaf: "leaf-1", Port: "Eth1"}, leaf.Link{Leaf: "leaf-1", Port: "Eth1", Fabric: "blue"}
	labels := table(t, byLabel)
	old := table(t, ofNode)
	old.Time = noon.Add(-2 * time.Hour)

	for name, c := range map[string]struct {
		port   leaf.Port
		order  []leaf.Source
		in     leaf.Inputs
		want   leaf.Link
		from   leaf.Source
		why    string
		failed bool
	}{
		"no source":   {},
		"LLDP":        {in: leaf.Inputs{Heard: heard(neighbors{leaf1})}, want: eth1},
		"two":         {in: leaf.Inputs{Heard: heard(neighbors{leaf1, leaf2})}, why: `ambiguous: "leaf-1" or "leaf-2"`},
		"and a host":  {in: leaf.Inputs{Heard: heard(neighbors{host, leaf1})}, want: eth1},
		"only a host": {in: leaf.Inputs{Heard: heard(neighbors{host})}, want: leaf.Link{Leaf: "dpu", Port: "p0"}},
		"no name": {
			in: leaf.Inputs{Heard: heard(neighbors{nameless})}, want: leaf.Link{Leaf: "0c:42:a1:00:00:07", Port: "7"},
		},
		"localhost": {
			in: leaf.Inputs{Heard: heard(neighbors{unnamed})}, want: leaf.Link{Leaf: "chassis of leaf-1", Port: "Eth1"},
		},
		"nobody":   {order: []leaf.Source{leaf.Networkd}, why: "networkd: nobody announces itself on eth0"},
		"too long": {in: leaf.Inputs{Heard: heard(neighbors{neighbor(strings.Repeat("l", 65), "")})}, why: "has 65 bytes"},
		"control":  {in: leaf.Inputs{Heard: heard(neighbors{neighbor("leaf\x1b[2J", "")})}, why: "cannot be printed"},
		"no text":  {in: leaf.Inputs{Heard: heard(neighbors{neighbor("leaf\xff", "")})}, why: "cannot be printed"},
		"blank":    {in: leaf.Inputs{Heard: heard(neighbors{neighbor(" ", "")})}, why: "says nothing"},
		"one name, two switches": {
			port: bonded(), in: leaf.Inputs{Heard: heard(neighbors{leaf1}, neighbors{twin})},
			why: `2 switches of this node call themselves "leaf-1"`,
		},
		"its name on an interface without HCA": {in: leaf.Inputs{Heard: heard(neighbors{leaf1}, neighbors{twin})}, want: eth1},
		"unread": {
			in:  leaf.Inputs{Heard: map[int]networkd.Heard{3: {Err: errors.New("too many")}}},
			why: "networkd: too many", failed: true,
		},
		"a bond of one leaf": {
			port: bonded(), in: leaf.Inputs{Heard: heard(neighbors{leaf1}, neighbors{neighbor("leaf-1", "Eth2")})},
			want: leaf.Link{Leaf: "leaf-1"},
		},
		"a bond of two leaves": {
			port: bonded(), in: leaf.Inputs{Heard: heard(neighbors{leaf1}, neighbors{leaf2})}, why: "ambiguous",
		},
		"a bond with one cable": {
			port: bonded(), in: leaf.Inputs{Heard: heard(neighbors{leaf1})}, want: leaf.Link{Leaf: "leaf-1", Port: "Eth1"},
		},
		"no networkd": {in: leaf.Inputs{HeardErr: errors.New("not there")}, why: "networkd: not there", failed: true},
		"another source": {
			order: []leaf.Source{leaf.Networkd, leaf.File, leaf.Table},
			in:    leaf.Inputs{HeardErr: errors.New("not there"), Table: table(t, ofNode)},
			want:  blue, from: leaf.Table,
		},
		"the first source": {
			order: []leaf.Source{leaf.Table, leaf.Networkd},
			in:    leaf.Inputs{Heard: heard(neighbors{leaf2}), Table: table(t, byGUID)},
			want:  leaf.Link{Leaf: "leaf-1"}, from: leaf.Table,
		},
		"a file": {
			order: ofFile, in: leaf.Inputs{File: table(t, ofNode)},
			want: blue,
		},
		"an old file":  {order: ofFile, in: leaf.Inputs{File: old}, why: "the file is 2h0m0s old"},
		"an old table": {order: ofTable, in: leaf.Inputs{Table: old}, want: blue},
		"no file":      {order: ofFile, in: leaf.Inputs{FileErr: errors.New("bad")}, why: "bad", failed: true},
		"two in a table": {
			order: ofTable, in: leaf.Inputs{Table: table(t, ofNode, ofOther)}, why: "ambiguous",
		},
		"a label": {
			order: ofTable, want: leaf.Link{Leaf: "leaf-3", Fabric: "blue"},
			in: leaf.Inputs{Table: labels, Labels: map[string]string{"example.com/leaf.eth0": "leaf-3"}},
		},
		"no label":  {order: ofTable, in: leaf.Inputs{Table: labels, Labels: map[string]string{}}, why: "says nothing"},
		"no labels": {order: ofTable, in: leaf.Inputs{Table: labels}, why: "not returned the node", failed: true},
		"a port before a label": {
			order: ofTable, want: leaf.Link{Leaf: "leaf-1"},
			in: leaf.Inputs{Table: table(t, byLabel, byGUID), Labels: map[string]string{"example.com/leaf.eth0": "leaf-3"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.port.Device == "" {
				c.port = port()
			}
			if c.order == nil && c.in.Heard != nil || c.in.HeardErr != nil && c.order == nil {
				c.order = []leaf.Source{leaf.Networkd}
			}
			if len(c.order) > 0 && c.from == "" && c.want != (leaf.Link{}) {
				c.from = c.order[0]
			}
			c.in.Now, c.in.Node = noon, "a"
			got := leaf.Resolve([]leaf.Port{c.port}, c.order, c.in)[c.port.PortID]
			same := got.Link == c.want && got.Source == c.from && got.Failed == c.failed
			test.True(t, same && strings.Contains(got.Why, c.why),
				test.Sprintf("got %+v, want %+v from %q, %q, failed %v", got, c.want, c.from, c.why, c.failed))
			test.True(t, (got.Why == "") == (got.Link.Leaf != "" || len(c.order) == 0) && len(got.Why) <= 600,
				test.Sprintf("a link is absent without a reason, or present with one: %+v", got))
		})
	}
}

// The site's table is the plan of a port, whatever source decides. A label of a node is none.
func TestPlanned(t *testing.T) {
	direct := v1alpha1.Link{Node: "a", HCA: "eth0", Leaf: "leaf-2", Port: "Eth9"}
	label := v1alpha1.Link{NodeLabel: "example.com/leaf"}
	for name, c := range map[string]struct {
		links []v1alpha1.Link
		want  leaf.Link
	}{
		"none":      {},
		"a link":    {[]v1alpha1.Link{direct}, leaf.Link{Leaf: "leaf-2", Port: "Eth9"}},
		"ambiguous": {[]v1alpha1.Link{direct, {Node: "a", HCA: "mlx5_0", Leaf: "leaf-3"}}, leaf.Link{}},
		"a label":   {[]v1alpha1.Link{label}, leaf.Link{}},
		"too long":  {[]v1alpha1.Link{{Node: "a", HCA: "eth0", Leaf: strings.Repeat("l", 65)}}, leaf.Link{}},
	} {
		in := leaf.Inputs{
			Now: noon, Node: "a", Heard: heard(neighbors{neighbor("leaf-1", "Eth1")}), Table: table(t, c.links...),
			Labels: map[string]string{"example.com/leaf": "leaf-4"},
		}
		p := port()
		got := leaf.Resolve([]leaf.Port{p}, []leaf.Source{leaf.Networkd}, in)[p.PortID]
		test.True(t, got.Planned == c.want && got.Link.Leaf == "leaf-1",
			test.Sprintf("%s: got %+v, want the plan %+v", name, got, c.want))
	}
}

// Whatever switches, files and tables say, a link can be published, or a reason says why there is none.
func FuzzResolve(f *testing.F) {
	f.Add("leaf-1", "Eth1", "chassis", "leaf-2", true)
	f.Add("", "", "", "", false)
	f.Add("leaf\x00", "\xff", "localhost", strings.Repeat("x", 70), true)
	f.Fuzz(func(t *testing.T, system, portName, chassis, planned string, isSwitch bool) {
		in := leaf.Inputs{
			Now: noon, Node: "a",
			Heard: map[int]networkd.Heard{3: {
				Neighbors: neighbors{{Chassis: chassis, System: system, Port: portName, Switch: isSwitch}},
			}},
			Table: &v1alpha1.LinkTable{Links: []v1alpha1.Link{{Node: "a", HCA: "eth0", Leaf: planned, Port: portName}}},
		}
		p := port()
		got := leaf.Resolve([]leaf.Port{p}, leaf.Sources(), in)[p.PortID]
		for _, value := range []string{got.Link.Leaf, got.Link.Port, got.Planned.Leaf, got.Planned.Port} {
			test.True(t, len(value) <= 64 && !strings.ContainsAny(value, "\x00\x1b\n"),
				test.Sprintf("published: %q", value))
		}
		test.True(t, (got.Link.Leaf == "") != (got.Why == "") && !strings.ContainsAny(got.Why, "\x00\x1b\n"),
			test.Sprintf("got %+v", got))
	})
}
