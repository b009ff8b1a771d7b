package leaf_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/networkd"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
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

type neighbors = []networkd.Neighbor

// resolveCase is what the sources say of a port: the neighbors of interface 3, and then of 4.
type resolveCase struct {
	Bonded            bool
	Order             []leaf.Source
	Heard             []neighbors
	HeardErr, FileErr string
	Table, File       []v1alpha1.Link
	Old               bool
	Labels            map[string]string
}

// failure is an error with this text, nil if it is empty.
func failure(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// table returns a checked table, nil without links.
func (c resolveCase) table(t *testing.T, links []v1alpha1.Link) *v1alpha1.LinkTable {
	t.Helper()
	if links == nil {
		return nil
	}
	out := &v1alpha1.LinkTable{APIVersion: "rdma.dev/v1alpha1", Kind: "LinkTable", Links: links}
	must.NoError(t, out.Check(false))
	out.Time = noon.Add(-time.Minute)
	if c.Old {
		out.Time = noon.Add(-2 * time.Hour)
	}
	return out
}

// TestResolve: the first source in the order that knows the port decides, or there is a reason why none does. The
// site's table is the plan of a port, whatever source decides; a label of a node is none.
func TestResolve(t *testing.T) {
	golden.Cases(t, "resolve", func(t *testing.T, c resolveCase) string {
		p := port()
		if c.Bonded {
			p.Netdev, p.Interfaces = "bond0", []leaf.Interface{{Name: "eth0", Index: 3}, {Name: "eth1", Index: 4}}
		}
		in := leaf.Inputs{
			Now: noon, Node: "a", Heard: map[int]neighbors{}, HeardErr: failure(c.HeardErr),
			FileErr: failure(c.FileErr), Table: c.table(t, c.Table), File: c.table(t, c.File), Labels: c.Labels,
		}
		for i, n := range c.Heard {
			in.Heard[3+i] = n
		}
		got := leaf.Resolve([]leaf.Port{p}, c.Order, in)[p.PortID]
		test.True(t, (got.Why == "") == (got.Link.Leaf != "" || len(c.Order) == 0) && len(got.Why) <= 600,
			test.Sprintf("a link is absent without a reason, or present with one: %+v", got))
		return fmt.Sprintf("link %q %q of %q by %q, planned %q %q, failed %t: %q", got.Link.Leaf, got.Link.Port,
			got.Link.Fabric, got.Source, got.Planned.Leaf, got.Planned.Port, got.Failed, got.Why)
	})
}

// Whatever switches, files and tables say, a link can be published, or a reason says why there is none.
func FuzzResolve(f *testing.F) {
	f.Add("leaf-1", "Eth1", "chassis", "leaf-2", true)
	f.Add("", "", "", "", false)
	f.Add("leaf\xff", "", "a", "", true)
	f.Add("leaf\x00", "\xff", "localhost", strings.Repeat("x", 70), true)
	f.Fuzz(func(t *testing.T, system, portName, chassis, planned string, isSwitch bool) {
		in := leaf.Inputs{
			Now: noon, Node: "a",
			Heard: map[int]neighbors{3: {{Chassis: chassis, System: system, Port: portName, Switch: isSwitch}}},
			Table: &v1alpha1.LinkTable{Links: []v1alpha1.Link{{Node: "a", HCA: "eth0", Leaf: planned, Port: portName}}},
		}
		p := port()
		got := leaf.Resolve([]leaf.Port{p}, leaf.Sources(), in)[p.PortID]
		for _, value := range []string{got.Link.Leaf, got.Link.Port, got.Planned.Leaf, got.Planned.Port} {
			test.True(t, len(value) <= 64 && !strings.ContainsAny(value, "\x00\x1b\n") && utf8.ValidString(value),
				test.Sprintf("published: %q", value))
		}
		test.True(t, (got.Link.Leaf == "") != (got.Why == "") && !strings.ContainsAny(got.Why, "\x00\x1b\n"),
			test.Sprintf("got %+v", got))
	})
}
