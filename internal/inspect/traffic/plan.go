package traffic

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Pair is two HCAs of two nodes, by their numbers in the list of HCAs. A listens, and B connects to it; the traffic
// goes both ways.
type Pair struct{ A, B int }

// Stage is pairs that run at once. No HCA is in two of them, so the traffic of an HCA belongs to one pair.
type Stage struct {
	// Name is the rail, for progress.
	Name string
	// Together says that the HCAs of a node run at once, as a job has them.
	Together bool
	Pairs    []Pair
}

// AtOnce is how many pairs a test measures at the same time.
const AtOnce = 16

// peersWanted is how many peers an HCA needs: with one, nobody can tell which of the two is slow.
const peersWanted = 2

// Plan returns the stages of a test: rail by rail, and then all rails of a node at once. On each rail, the HCAs below
// one leaf switch form a ring in the order given, so that each has two peers below the same switch; where that is not
// possible, HCAs below other leaf switches are its peers. HCAs of different rails, protocols or InfiniBand subnets are
// never paired, nor are those of one node. At most limit pairs run at once, but for the rails between two nodes, which
// always run together.
func Plan(hcas []model.HCA, limit int) []Stage {
	var out []Stage
	var all []Pair
	for _, rail := range groups(hcas, allHCAs(hcas), railOf) {
		pairs := pairsOf(hcas, rail)
		all = append(all, pairs...)
		for _, batch := range batches(pairs, limit) {
			out = append(out, Stage{Name: railName(hcas[rail[0]]), Pairs: batch})
		}
	}
	if !severalRails(hcas, all) {
		return out
	}
	for _, batch := range together(hcas, all, limit) {
		out = append(out, Stage{Name: "all rails at once", Together: true, Pairs: batch})
	}
	return out
}

func railName(h model.HCA) string {
	name := "HCAs without a rail"
	if h.Rail != "" {
		name = "rail " + h.Rail
	}
	return name + ", " + cmp.Or(h.Protocol, "protocol unknown")
}

func allHCAs(hcas []model.HCA) (out []int) {
	for i := range hcas {
		out = append(out, i)
	}
	return out
}

type network struct{ rail, protocol, subnet string }

func railOf(h *model.HCA) network { return network{h.Rail, h.Protocol, h.Subnet} }

// groups splits HCAs by a key, in the order of first appearance.
func groups[K comparable](hcas []model.HCA, of []int, key func(*model.HCA) K) (out [][]int) {
	at := map[K]int{}
	for _, i := range of {
		k := key(&hcas[i])
		if _, known := at[k]; !known {
			at[k] = len(out)
			out = append(out, nil)
		}
		out[at[k]] = append(out[at[k]], i)
	}
	return out
}

// pairsOf returns the pairs of the HCAs of one rail.
func pairsOf(hcas []model.HCA, rail []int) []Pair {
	p := pairing{hcas: hcas, peers: map[int][]int{}}
	for _, leaf := range groups(hcas, rail, func(h *model.HCA) string { return h.Leaf }) {
		p.ring(alternate(hcas, leaf))
	}
	// An HCA without two peers gets others: those with the fewest first, below its own leaf switch if possible.
	for _, i := range rail {
		for len(p.peers[i]) < peersWanted {
			best := -1
			for _, j := range rail {
				if p.possible(i, j) && (best < 0 || p.cost(i, j) < p.cost(i, best)) {
					best = j
				}
			}
			if best < 0 {
				break
			}
			p.add(i, best)
		}
	}
	return p.pairs
}

// pairing collects pairs.
type pairing struct {
	hcas  []model.HCA
	pairs []Pair
	peers map[int][]int
}

func (p *pairing) possible(i, j int) bool {
	return i != j && p.hcas[i].Node != p.hcas[j].Node && !slices.Contains(p.peers[i], j)
}

// cost orders the possible peers of an HCA.
func (p *pairing) cost(i, j int) int {
	cost := 2 * len(p.peers[j])
	if p.hcas[i].Leaf != p.hcas[j].Leaf {
		cost++
	}
	return cost
}

func (p *pairing) add(i, j int) {
	p.pairs = append(p.pairs, Pair{i, j})
	p.peers[i], p.peers[j] = append(p.peers[i], j), append(p.peers[j], i)
}

func (p *pairing) ring(order []int) {
	for k, i := range order {
		if j := order[(k+1)%len(order)]; p.possible(i, j) {
			p.add(i, j)
		}
	}
}

// alternate orders the HCAs of a leaf switch for a ring: the first ones of all nodes, then the second ones, and so on,
// so that neighbors are of different nodes.
func alternate(hcas []model.HCA, leaf []int) (out []int) {
	nodes := groups(hcas, leaf, func(h *model.HCA) string { return h.Node })
	for round := 0; len(out) < len(leaf); round++ {
		for _, node := range nodes {
			if round < len(node) {
				out = append(out, node[round])
			}
		}
	}
	return out
}

// batches splits pairs into those that can run at once.
func batches(pairs []Pair, limit int) (out [][]Pair) {
	left := slices.Clone(pairs)
	for len(left) > 0 {
		used := map[int]bool{}
		var batch, later []Pair
		for _, p := range left {
			if len(batch) >= limit || used[p.A] || used[p.B] {
				later = append(later, p)
				continue
			}
			used[p.A], used[p.B] = true, true
			batch = append(batch, p)
		}
		out, left = append(out, batch), later
	}
	return out
}

// severalRails reports whether a node has several HCAs with peers.
func severalRails(hcas []model.HCA, pairs []Pair) bool {
	seen := map[string]int{}
	for _, p := range pairs {
		for _, i := range []int{p.A, p.B} {
			if first, known := seen[hcas[i].Node]; known && first != i {
				return true
			}
			seen[hcas[i].Node] = i
		}
	}
	return false
}

// together splits pairs into those of two nodes. A node is in one of them at a time.
func together(hcas []model.HCA, pairs []Pair, limit int) (out [][]Pair) {
	type couple struct{ a, b string }
	at := map[couple]int{}
	var couples [][]Pair
	for _, p := range pairs {
		c := couple{hcas[p.A].Node, hcas[p.B].Node}
		if c.a > c.b {
			c.a, c.b = c.b, c.a
		}
		if _, known := at[c]; !known {
			at[c] = len(couples)
			couples = append(couples, nil)
		}
		couples[at[c]] = append(couples[at[c]], p)
	}
	var left [][]Pair // each can run at once
	for _, c := range couples {
		left = append(left, batches(c, len(c))...)
	}
	for len(left) > 0 {
		used := map[string]bool{}
		var batch []Pair
		var later [][]Pair
		for _, c := range left {
			a, b := hcas[c[0].A].Node, hcas[c[0].B].Node
			if used[a] || used[b] || len(batch) > 0 && len(batch)+len(c) > limit {
				later = append(later, c)
				continue
			}
			used[a], used[b] = true, true
			batch = append(batch, c...)
		}
		out, left = append(out, batch), later
	}
	return out
}

// ChooseRails splits HCAs into those of rails with these numbers, and the others. Without numbers all are chosen.
func ChooseRails(hcas []model.HCA, rails []string) (chosen []model.HCA, _ error) {
	if len(rails) == 0 {
		return hcas, nil
	}
	for _, rail := range rails {
		if !slices.ContainsFunc(hcas, func(h model.HCA) bool { return h.Rail == rail }) {
			return nil, fmt.Errorf("find HCAs of rail %s: these nodes publish none; see kubectl rdma topology --cluster",
				text.Foreign(rail))
		}
	}
	for _, h := range hcas {
		if slices.Contains(rails, h.Rail) {
			chosen = append(chosen, h)
		}
	}
	return chosen, nil
}
