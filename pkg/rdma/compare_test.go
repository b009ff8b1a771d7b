package rdma

import (
	"reflect"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestEqual: two HCAs are equal, and no more so if any field of one differs.
func TestEqual(t *testing.T) {
	whole := func() *HCA {
		n := 1
		return &HCA{
			Identity: Identity{PCI: "p", SF: &n}, VFIndex: &n, PCI: &PCIFunction{NUMANode: &n, TotalVFs: &n, NumVFs: &n,
				Bridges: []string{"b"}},
			DataDirect: &PCIFunction{NUMANode: &n, TotalVFs: &n, NumVFs: &n, Bridges: []string{"b"}},
			Ports:      []Port{{Number: 1}}, Uverbs: &Node{Name: "uverbs0"}, PSM: &Node{Name: "hfi1_0"}, MADs: []Node{{Name: "umad0"}},
			Software: &Software{Index: 1},
		}
	}
	must.True(t, whole().Equal(whole()), must.Sprint("two equal HCAs differ"))
	h := whole()
	count := 0
	eachLeaf(reflect.ValueOf(h).Elem(), "HCA", func(name string, change, undo func()) {
		count++
		change()
		test.True(t, !h.Equal(whole()) && !whole().Equal(h), test.Sprintf("HCAs that differ in %s are equal", name))
		undo()
	})
	for name, none := range map[string]func(*HCA){
		"PCI": func(h *HCA) { h.PCI = nil }, "VFIndex": func(h *HCA) { h.VFIndex = nil },
		"DataDirect": func(h *HCA) { h.DataDirect = nil },
		"Uverbs":     func(h *HCA) { h.Uverbs = nil },
		"SF":         func(h *HCA) { h.Identity.SF = nil }, "Ports": func(h *HCA) { h.Ports = nil },
	} {
		h := whole()
		none(h)
		test.True(t, !h.Equal(whole()) && !whole().Equal(h) && h.Equal(h),
			test.Sprintf("an HCA without %s: equal to one with it, or not to itself", name))
	}
	test.GreaterEq(t, 40, count, test.Sprintf("%d fields were compared", count))
}

// eachLeaf visits the values of a struct that hold no others.
func eachLeaf(v reflect.Value, name string, visit func(name string, change, undo func())) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	undo := func() { v.Set(old) }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachLeaf(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Pointer:
		eachLeaf(v.Elem(), name, visit)
	case reflect.Slice:
		eachLeaf(v.Index(0), name+"[0]", visit)
	case reflect.String:
		visit(name, func() { v.SetString(v.String() + "x") }, undo)
	case reflect.Int:
		visit(name, func() { v.SetInt(v.Int() + 1) }, undo)
	case reflect.Uint32, reflect.Uint64:
		visit(name, func() { v.SetUint(v.Uint() + 1) }, undo)
	case reflect.Bool:
		visit(name, func() { v.SetBool(!v.Bool()) }, undo)
	default:
		panic("no test for a field like " + name)
	}
}

// TestCompare: what differs, by HCA.
func TestCompare(t *testing.T) {
	vf := func(address string, state PortState) HCA {
		h := HCA{Identity: Identity{PCI: address}, Function: VF, PF: address[:10] + "0.0",
			Ports: []Port{{Number: 1, State: state}}}
		h.Name = h.Identity.Name()
		return h
	}
	snapshot := func(hcas ...HCA) *Snapshot { return &Snapshot{HCAs: hcas} }
	a1, a2, b1 := vf("0000:3b:00.1", PortActive), vf("0000:3b:00.2", PortActive), vf("0000:c1:00.1", PortActive)
	down := vf("0000:3b:00.2", PortDown)
	whole := snapshot(a1, a2, b1)
	renamed := a2
	renamed.IBDev = "other"
	cm := snapshot(a1, a2, b1)
	cm.RDMACM = &Node{Kind: NodeRDMACM, Name: "rdma_cm", Major: 10, Minor: 58}
	for name, c := range map[string]struct {
		older, newer *Snapshot
		want         Difference
	}{
		"same":     {whole, whole, Difference{}},
		"equal":    {whole, snapshot(a1, a2, b1), Difference{}},
		"first":    {nil, snapshot(a1), Difference{Reshaped: true, HCAs: []string{a1.Name}}},
		"a link":   {whole, snapshot(a1, down, b1), Difference{HCAs: []string{a2.Name}}},
		"a name":   {whole, snapshot(a1, renamed, b1), Difference{Reshaped: true, HCAs: []string{a2.Name}}},
		"gone":     {whole, snapshot(a1, a2), Difference{Reshaped: true, HCAs: []string{b1.Name}}},
		"came":     {snapshot(a2), whole, Difference{Reshaped: true, HCAs: []string{a1.Name, b1.Name}}},
		"all gone": {snapshot(a1, a2), snapshot(), Difference{Reshaped: true, HCAs: []string{a1.Name, a2.Name}}},
		"rdma_cm":  {whole, cm, Difference{Host: true}},
	} {
		got := Compare(c.older, c.newer)
		test.Eq(t, c.want, got, test.Sprint(name))
		test.Eq(t, (len(c.want.HCAs) == 0 && !c.want.Host), got.Empty(), test.Sprintf("%s: empty", name))
	}
}

func TestChanges(t *testing.T) {
	var c Changes
	test.True(t, c.Empty() && c.String() == "nothing", test.Sprintf("no change: %s", c))
	first := Changes{IBDevs: NamesOf("mlx5_1", ""), Netdevs: NamesOf("eth0")}
	c.Merge(first)
	c.Merge(Changes{Host: true, IBDevs: NamesOf("mlx5_0"), Nodes: NamesOf("uverbs3"), Functions: NamesOf("0000:3b:00.0")})
	got, want := c.String(), "host, HCAs mlx5_0 mlx5_1, nodes uverbs3, interfaces eth0, PCI functions 0000:3b:00.0"
	test.True(t, got == want && !c.Empty(), test.Sprintf("merged: %s; want %s", got, want))
	test.SliceEqOp(t, []string{"mlx5_1"}, first.IBDevs.Sorted(), test.Sprint("what was merged has become"))
	c.Merge(Changes{All: true})
	test.True(t, c.String() == "everything" && !c.Empty(), test.Sprintf("merged with everything: %s", c))
}
