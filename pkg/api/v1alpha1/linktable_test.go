package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func TestLinkTable(t *testing.T) {
	link := func(change func(*v1alpha1.Link)) []v1alpha1.Link {
		l := v1alpha1.Link{Node: "a", HCA: "mlx5_0", Leaf: "leaf-1"}
		change(&l)
		return []v1alpha1.Link{l}
	}
	for name, c := range map[string]struct {
		links  []v1alpha1.Link
		ofHost bool
		want   string
	}{
		"a node's HCA": {link(func(*v1alpha1.Link) {}), false, ""},
		"a GUID":       {[]v1alpha1.Link{{GUID: "a088:c203:003f:1800", Leaf: "leaf-1"}}, false, ""},
		"iblinkinfo":   {[]v1alpha1.Link{{GUID: "0xa088c203003f1800", Leaf: "leaf-1"}}, false, ""},
		"a label":      {[]v1alpha1.Link{{NodeLabel: "example.com/leaf", Fabric: "a"}}, false, ""},
		"a host's own": {link(func(l *v1alpha1.Link) { l.Node = "" }), true, ""},
		"no node":      {link(func(l *v1alpha1.Link) { l.Node = "" }), false, "links[0]: hca needs node"},
		"nothing":      {[]v1alpha1.Link{{Leaf: "leaf-1"}}, false, "want one of guid, hca and nodeLabel, not 0"},
		"two":          {link(func(l *v1alpha1.Link) { l.GUID = "0x1" }), false, "not 2"},
		"no leaf":      {link(func(l *v1alpha1.Link) { l.Leaf = "" }), false, "leaf is required"},
		"node alone":   {link(func(l *v1alpha1.Link) { l.HCA, l.GUID = "", "0x1" }), false, "node needs hca"},
		"label, leaf":  {[]v1alpha1.Link{{NodeLabel: "x", Leaf: "y"}}, false, "leave out leaf"},
		"GUID zero":    {[]v1alpha1.Link{{GUID: "0x0", Leaf: "y"}}, false, `guid "0x0" is none`},
		"no GUID":      {[]v1alpha1.Link{{GUID: "leaf", Leaf: "y"}}, false, `guid "leaf" is none`},
		"too many":     {make([]v1alpha1.Link, v1alpha1.MaxLinks+1), false, "at most 10000"},
	} {
		table := v1alpha1.LinkTable{APIVersion: "rdma.dev/v1alpha1", Kind: "LinkTable", Links: c.links}
		err := table.Check(!c.ofHost)
		test.True(t, (err != nil) == (c.want != "") && (err == nil || strings.Contains(err.Error(), c.want)),
			test.Sprintf("%s: error %v, want %q", name, err, c.want))
		port := v1alpha1.LinkPort{GUIDs: []rdma.GUID{0xa088c203003f1800}}
		if c.want == "" && c.links[0].GUID != "" && !table.Links[0].IsOf(&port) {
			t.Errorf("%s: the GUID is another one", name)
		}
	}
	ofHost := v1alpha1.LinkTable{APIVersion: "rdma.dev/v1alpha1", Kind: "LinkTable", Links: []v1alpha1.Link{
		{HCA: "ens1", Leaf: "leaf-7"}, {HCA: "eth0"}, {HCA: "ens2", Leaf: "leaf-8"}, // a neighbor on eth0 has an empty name
	}}
	err := ofHost.Check(false)
	test.True(t, err == nil && len(ofHost.Links) == 2,
		test.Sprintf("a host's file with one wrong link: %v, %+v", err, ofHost.Links))
	test.Error(t, (&v1alpha1.LinkTable{Kind: "LinkTable"}).Check(true),
		test.Sprint("a table without a version is taken"))
}

func TestSameLeaf(t *testing.T) {
	for names, want := range map[[2]string]bool{
		{"leaf-1", "leaf-1"}: true, {"leaf-1", "LEAF-1"}: true, {"leaf-1", "leaf-1.example.com"}: true,
		{"leaf-1.example.com", "leaf-1"}: true, {"leaf-1.a.com", "leaf-1.b.com"}: false, {"leaf-1", "leaf-11"}: false,
		{"leaf-1", ""}: false,
	} {
		test.Eq(t, want, v1alpha1.SameLeaf(names[0], names[1]),
			test.Sprintf("%q and %q are one leaf", names[0], names[1]))
	}
}

// A link of a node's HCA is that of its first port, unless it names another one.
func TestLinkIsOf(t *testing.T) {
	for _, c := range []struct {
		node, hca string
		number    int
		want      bool
	}{
		{"a", "mlx5_0", 1, true}, {"a", "eth0", 1, true}, {"", "mlx5_0", 1, true}, {"a", "mlx5_0/1", 1, true},
		{"a", "mlx5_0/2", 2, true}, {"a", "mlx5_0", 2, false}, {"b", "mlx5_0", 1, false}, {"a", "mlx5_01", 1, false},
		{"a", "", 1, false}, {"a", "mlx5_0/2", 1, false},
	} {
		l := v1alpha1.Link{Node: c.node, HCA: c.hca, Leaf: "leaf-1"}
		port := v1alpha1.LinkPort{
			Node: "a", Names: []string{"pci-0000-18-00-0", "mlx5_0", "eth0", ""},
			Number: c.number, First: c.number == 1,
		}
		test.Eq(t, c.want, l.IsOf(&port), test.Sprintf("%q/%q is that of port %d", c.node, c.hca, c.number))
	}
}
