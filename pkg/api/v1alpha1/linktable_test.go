package v1alpha1_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func TestLinkTable(t *testing.T) {
	type input struct {
		v1alpha1.LinkTable
		OfHost bool
	}
	golden.Cases(t, "linktable", func(t *testing.T, in input) string {
		in.APIVersion, in.Kind = "rdma.dev/v1alpha1", "LinkTable"
		if err := in.Check(!in.OfHost); err != nil {
			return err.Error()
		}
		out := ""
		for _, l := range in.Links {
			port := v1alpha1.LinkPort{
				Node: "a", Names: []string{"mlx5_0"}, GUIDs: []rdma.GUID{0xa088c203003f1800}, First: true,
			}
			out += fmt.Sprintf("node %q, HCA %q, GUID %q, label %q, leaf %q: of mlx5_0 %t\n", l.Node, l.HCA, l.GUID,
				l.NodeLabel, l.Leaf, l.IsOf(&port))
		}
		return out
	})
	large := v1alpha1.LinkTable{
		APIVersion: "rdma.dev/v1alpha1", Kind: "LinkTable", Links: make([]v1alpha1.Link, v1alpha1.MaxLinks+1),
	}
	test.ErrorContains(t, large.Check(true), "at most 10000")
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
