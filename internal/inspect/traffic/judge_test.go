package traffic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

const least = 0.85

// named returns the names of the slow HCAs.
func named(verdicts []Verdict) (out []string) {
	for _, v := range verdicts {
		if v.State == Slow {
			out = append(out, v.String())
		}
	}
	return out
}

func TestJudge(t *testing.T) {
	const n, s = 390.0, 39.0
	type rates map[Pair]float64
	for _, tc := range []struct {
		name   string
		nodes  int
		each   int
		rails  bool
		rates  rates
		states []State
	}{
		{"all are good", 3, 1, true, rates{{0, 1}: n, {1, 2}: n, {2, 0}: n * 0.97}, []State{Good, Good, Good}},
		{"one of three", 3, 1, true, rates{{0, 1}: s, {1, 2}: n, {2, 0}: s}, []State{Slow, Good, Good}},
		{"one of the four ends of two nodes", 2, 2, false, rates{{0, 2}: n, {2, 1}: s, {1, 3}: s, {3, 0}: n},
			[]State{Good, Slow, Good, Good}},
		{"a single pair compares with nothing", 2, 1, true, rates{{0, 1}: s}, []State{Unclear, Unclear}},
		{"a slow pair beside another rail names nobody", 2, 2, true, rates{{0, 2}: n, {1, 3}: s}, []State{Good, Unclear, Good, Unclear}},
		{"one slow link between good HCAs", 4, 1, true, rates{{0, 1}: s, {1, 2}: n, {2, 3}: n, {3, 0}: n},
			[]State{Unclear, Unclear, Good, Good}},
		{"between two slow ones", 6, 1, true, rates{{0, 1}: s, {1, 2}: s, {2, 3}: s, {3, 4}: s, {4, 5}: n, {5, 0}: n},
			[]State{Unclear, Unclear, Unclear, Unclear, Unclear, Good}},
		{"no figure is not slow", 4, 1, true, rates{{0, 1}: 0, {1, 2}: n, {2, 3}: n, {3, 0}: 0},
			[]State{NotMeasured, Good, Good, Good}},
	} {
		hcas := machines(tc.nodes, tc.each, tc.rails)
		var results []Result
		for p, rate := range tc.rates {
			results = append(results, Result{Pair: p, AToB: n, BToA: rate})
		}
		got := Judge(hcas, results, least)
		for i, want := range tc.states {
			test.Eq(t, want, got[i].State, test.Sprintf("%s: %s", tc.name, got[i].String()))
		}
	}
}

// TestJudgeKinds: HCAs of another rate or protocol, and another kind of stage, are not compared. A worse verdict of one
// kind stays.
func TestJudgeKinds(t *testing.T) {
	hcas := machines(6, 1, true)
	for i := range 3 {
		hcas[i].RateGbps = 100
	}
	var results []Result
	for i := range 3 {
		results = append(results, Result{Pair: Pair{i, (i + 1) % 3}, AToB: 98, BToA: 98},
			Result{Pair: Pair{3 + i, 3 + (i+1)%3}, AToB: 390, BToA: 390},
			Result{Pair: Pair{3 + i, 3 + (i+1)%3}, Together: true, AToB: 300, BToA: 300})
	}
	test.Nil(t, named(Judge(hcas, results, least)), test.Sprint("slow"))
	for i := range results {
		if r := &results[i]; r.Together && (r.Pair.A == 4 || r.Pair.B == 4) {
			r.AToB = 90
		}
	}
	test.SliceEqOp(t, []string{"n4/mlx5_0"}, named(Judge(hcas, results, least)), test.Sprint("slow"))
}

// TestJudgeFleets: of 1,000 random fleets with noise, no healthy HCA is named, whatever share of them is ill, and an
// ill one is, if two of its peers are healthy and have a healthy peer each. A healthy HCA has its full rate. An ill one
// has less than 80 % of it, in one or both directions. The noise is 3 %.
func TestJudgeFleets(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	found, ill, fleets := 0, 0, 1000
	for fleet := range fleets {
		hcas := machines(2+random.IntN(14), 1+random.IntN(4), random.IntN(2) == 0)
		var capacity [][2]float64 // sending and receiving
		sick := map[int]bool{}
		share := []float64{0, 0.02, 0.1, 0.4}[random.IntN(4)]
		for i := range hcas {
			c := [2]float64{390, 390}
			if sick[i] = random.Float64() < share; sick[i] {
				factor := 0.02 + 0.78*random.Float64()
				c[random.IntN(2)] *= factor
				if random.IntN(2) == 0 {
					c = [2]float64{390 * factor, 390 * factor}
				}
			}
			capacity = append(capacity, c)
		}
		peers := map[int][]int{}
		var results []Result
		for _, s := range Plan(hcas, 1+random.IntN(16)) {
			for _, p := range s.Pairs {
				noise := func() float64 { return 1 + 0.03*(2*random.Float64()-1) }
				r := Result{
					Pair: p, Together: s.Together, AToB: min(capacity[p.A][0], capacity[p.B][1]) * noise(),
					BToA: min(capacity[p.B][0], capacity[p.A][1]) * noise(),
				}
				if random.IntN(50) == 0 {
					r.AToB, r.BToA, r.Error = 0, 0, "lost"
				} else if !s.Together {
					peers[p.A], peers[p.B] = append(peers[p.A], p.B), append(peers[p.B], p.A)
				}
				results = append(results, r)
			}
		}
		verdicts := Judge(hcas, results, least)
		for i, v := range verdicts {
			if !sick[i] {
				must.NotEq(t, Slow, v.State,
					must.Sprintf("fleet %d: the healthy %s is named: %+v", fleet, v.String(), v))
				continue
			}
			ill++
			if v.State == Slow {
				found++
			}
			witnesses := 0
			for _, peer := range peers[i] {
				if !sick[peer] && slices.ContainsFunc(peers[peer], func(other int) bool { return other != i && !sick[other] }) {
					witnesses++
				}
			}
			if witnesses >= peersWanted && v.State != Slow && mostAreHealthy(verdicts) {
				t.Fatalf("fleet %d: %s is ill, has %d witnesses, and is %s: %+v", fleet, v.String(), witnesses, v.State, verdicts)
			}
		}
	}
	t.Logf("%d of %d ill HCAs of %d fleets are named", found, ill, fleets)
}

// mostAreHealthy reports whether the median of the best rates is that of a healthy HCA.
func mostAreHealthy(verdicts []Verdict) bool {
	var best []float64
	for _, v := range verdicts {
		if v.Alone > 0 {
			best = append(best, v.Alone)
		}
	}
	slices.Sort(best)
	return best[len(best)/2] > 390*0.96
}

func ExampleJudge() {
	hcas := machines(3, 1, true)
	for _, v := range Judge(hcas, []Result{
		{Pair: Pair{0, 1}, AToB: 39, BToA: 39}, {Pair: Pair{1, 2}, AToB: 390, BToA: 390},
		{Pair: Pair{2, 0}, AToB: 39, BToA: 39},
	}, 0.85) {
		fmt.Println(v.String(), v.State)
	}
	// Output:
	// n0/mlx5_0 slow
	// n1/mlx5_0 good
	// n2/mlx5_0 good
}
