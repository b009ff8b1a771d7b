package traffic

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// machines returns HCAs of nodes: so many of each node, each on a rail of its own unless they have none.
func machines(nodes, each int, rails bool) (out []model.HCA) {
	for n := range nodes {
		for h := range each {
			hca := model.HCA{
				Node: fmt.Sprintf("n%d", n), IBDev: fmt.Sprintf("mlx5_%d", h), Name: fmt.Sprintf("pci-%d", h),
				Protocol: "ib", RateGbps: 400,
			}
			if rails {
				hca.Rail = fmt.Sprint(h)
			}
			out = append(out, hca)
		}
	}
	return out
}

// texts names the pairs of stages.
func texts(hcas []model.HCA, stages []Stage) (out []string) {
	for _, s := range stages {
		line := s.Name + ":"
		for _, p := range s.Pairs {
			line += " " + hcas[p.A].String() + "=" + hcas[p.B].String()
		}
		out = append(out, line)
	}
	return out
}

func TestPlan(t *testing.T) {
	leaves := machines(4, 1, true)
	for i, leaf := range []string{"a", "b", "a", "b"} {
		leaves[i].Leaf = leaf
	}
	lonely := machines(3, 1, true)
	for i, leaf := range []string{"a", "a", "b"} {
		lonely[i].Leaf = leaf
	}
	uneven := append(machines(2, 1, false), model.HCA{Node: "n0", IBDev: "mlx5_8", Protocol: "ib", RateGbps: 400})
	mixed := machines(2, 2, false)
	mixed[0].Protocol, mixed[2].Protocol = "roce", "roce"
	for _, tc := range []struct {
		name  string
		hcas  []model.HCA
		limit int
		want  []string
	}{
		{"a ring", machines(4, 1, true), 16, []string{
			"rail 0, ib: n0/mlx5_0=n1/mlx5_0 n2/mlx5_0=n3/mlx5_0", "rail 0, ib: n1/mlx5_0=n2/mlx5_0 n3/mlx5_0=n0/mlx5_0"}},
		{"one pair at a time", machines(3, 1, true), 1, []string{
			"rail 0, ib: n0/mlx5_0=n1/mlx5_0", "rail 0, ib: n1/mlx5_0=n2/mlx5_0", "rail 0, ib: n2/mlx5_0=n0/mlx5_0"}},
		{"rails are never mixed", machines(2, 2, true), 16, []string{
			"rail 0, ib: n0/mlx5_0=n1/mlx5_0", "rail 1, ib: n0/mlx5_1=n1/mlx5_1",
			"all rails at once: n0/mlx5_0=n1/mlx5_0 n0/mlx5_1=n1/mlx5_1"}},
		{"nor protocols", mixed, 16, []string{
			"HCAs without a rail, roce: n0/mlx5_0=n1/mlx5_0", "HCAs without a rail, ib: n0/mlx5_1=n1/mlx5_1",
			"all rails at once: n0/mlx5_0=n1/mlx5_0 n0/mlx5_1=n1/mlx5_1"}},
		{"four ends of two nodes", machines(2, 2, false), 16, []string{
			"HCAs without a rail, ib: n0/mlx5_0=n1/mlx5_0 n0/mlx5_1=n1/mlx5_1",
			"HCAs without a rail, ib: n1/mlx5_0=n0/mlx5_1 n1/mlx5_1=n0/mlx5_0",
			"all rails at once: n0/mlx5_0=n1/mlx5_0 n0/mlx5_1=n1/mlx5_1",
			"all rails at once: n1/mlx5_0=n0/mlx5_1 n1/mlx5_1=n0/mlx5_0"}},
		{"leaves", leaves, 16, []string{
			"rail 0, ib: n0/mlx5_0=n2/mlx5_0 n1/mlx5_0=n3/mlx5_0", "rail 0, ib: n0/mlx5_0=n1/mlx5_0 n2/mlx5_0=n3/mlx5_0"}},
		{"a leaf of one node", lonely, 16, []string{
			"rail 0, ib: n0/mlx5_0=n1/mlx5_0", "rail 0, ib: n0/mlx5_0=n2/mlx5_0", "rail 0, ib: n1/mlx5_0=n2/mlx5_0"}},
		{"never within a node", uneven, 16, []string{
			"HCAs without a rail, ib: n0/mlx5_0=n1/mlx5_0", "HCAs without a rail, ib: n1/mlx5_0=n0/mlx5_8",
			"all rails at once: n0/mlx5_0=n1/mlx5_0", "all rails at once: n1/mlx5_0=n0/mlx5_8"}},
		{"one node", machines(1, 8, true), 16, nil},
	} {
		test.SliceEqOp(t, tc.want, texts(tc.hcas, Plan(tc.hcas, tc.limit)), test.Sprintf("%s", tc.name))
	}
}

// TestPlanProperties: of random fleets, no HCA is in two pairs of a stage, no pair is within a node or between rails,
// and each HCA has the peers that there are.
func TestPlanProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var hcas []model.HCA
		for n := range 1 + random.IntN(12) {
			for h := range random.IntN(5) {
				hcas = append(hcas, model.HCA{
					Node: fmt.Sprint("n", n), IBDev: fmt.Sprint(h), Rail: fmt.Sprint(random.IntN(3)),
					Leaf: fmt.Sprint(random.IntN(3)), Protocol: []string{"ib", "roce"}[random.IntN(2)],
				})
			}
		}
		limit := 1 + random.IntN(6)
		alone := map[int]map[int]bool{}
		both := [2]map[Pair]int{{}, {}}
		for _, s := range Plan(hcas, limit) {
			used, couples := map[int]bool{}, map[string]bool{}
			for _, p := range s.Pairs {
				a, b := hcas[p.A], hcas[p.B]
				if used[p.A] || used[p.B] || a.Node == b.Node || railOf(&a) != railOf(&b) {
					t.Fatalf("%+v in %q", p, texts(hcas, []Stage{s}))
				}
				used[p.A], used[p.B] = true, true
				couples[min(a.Node, b.Node)+max(a.Node, b.Node)] = true
				kind := 0
				if s.Together {
					kind = 1
				} else {
					for _, e := range []Pair{{p.A, p.B}, {p.B, p.A}} {
						if alone[e.A] == nil {
							alone[e.A] = map[int]bool{}
						}
						alone[e.A][e.B] = true
					}
				}
				both[kind][p]++
			}
			if len(s.Pairs) == 0 || len(s.Pairs) > limit && (!s.Together || len(couples) > 1) {
				t.Fatalf("%d pairs at once, want at most %d: %q", len(s.Pairs), limit, texts(hcas, []Stage{s}))
			}
		}
		if len(both[1]) > 0 && !reflect.DeepEqual(both[0], both[1]) {
			t.Fatalf("rail by rail %v, all at once %v", both[0], both[1])
		}
		for i := range hcas {
			others := map[int]bool{}
			for j := range hcas {
				if railOf(&hcas[i]) == railOf(&hcas[j]) && hcas[i].Node != hcas[j].Node {
					others[j] = true
				}
			}
			must.GreaterEq(t, min(peersWanted, len(others)), len(alone[i]),
				must.Sprintf("%s has %d peers, and %d are possible", hcas[i].String(), len(alone[i]), len(others)))
		}
	}
}

func TestChooseRails(t *testing.T) {
	hcas := machines(2, 4, true)
	got, err := ChooseRails(hcas, []string{"0", "3"})
	if err != nil || len(got) != 4 || got[1].Rail != "3" {
		t.Errorf("%v, %v", got, err)
	}
	if all, err := ChooseRails(hcas, nil); err != nil || len(all) != 8 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := ChooseRails(hcas, []string{"4"}); err == nil {
		t.Error("a rail that no HCA has is no error")
	}
}
