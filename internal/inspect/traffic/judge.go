package traffic

import (
	"cmp"
	"math"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Result is what was measured between two HCAs.
type Result struct {
	Pair Pair   `json:"-"`
	A    string `json:"a"`
	B    string `json:"b"`
	// Together says that all rails were measured at once.
	Together bool `json:"together,omitempty"`
	// AToB and BToA are rates in Gb/s of 1e9 bits, by the messages that perftest completed: the other HCA has acknowledged
	// them. 0 is not measured.
	AToB float64 `json:"aToBGbps,omitempty"`
	BToA float64 `json:"bToAGbps,omitempty"`
	// Error says why a rate is 0.
	Error string `json:"error,omitempty"`
}

// rate is that of the slower direction: a fault may concern one only. It is 0 if a direction was not measured.
func (r *Result) rate() float64 { return min(r.AToB, r.BToA) }

// State is what a test says of an HCA.
type State string

// The states. Slow alone is a verdict.
const (
	Good State = "good"
	Slow State = "slow"
	// Unclear HCAs are slow with a peer, and nobody can tell which of both is the reason; or there is no other pair to
	// compare with.
	Unclear State = "unclear"
	// NotMeasured HCAs have no rate at all, which is no verdict either.
	NotMeasured State = "not measured"
)

// Verdict is what a test says of an HCA, and why.
type Verdict struct {
	model.HCA
	State State `json:"state"`
	// Alone and Together are the best rates, in Gb/s, with one rail at a time and with all rails at once. 0 is not
	// measured.
	Alone    float64 `json:"aloneGbps,omitempty"`
	Together float64 `json:"togetherGbps,omitempty"`
	// Least is the rate in Gb/s below which a pair is slow, for the kind of stage that decided.
	Least float64 `json:"leastGbps,omitempty"`
	// SlowWith are the peers with which it is slow. For a slow HCA, two of them at least are good with others.
	SlowWith []string `json:"slowWith,omitempty"`
	// Errors are why pairs of it were not measured.
	Errors []string `json:"errors,omitempty"`
}

// judging is the pairs that are compared with each other: of one kind of stage, and HCAs of one protocol and rate.
type judging struct {
	results []*Result
	// reference is the median of the HCAs' best rates. A slow HCA spoils the rates of its peers, but not their best ones.
	reference, least float64
}

// Judge names the slow HCAs. It errs on the side of silence: an HCA is named only if each of its measured pairs of a
// kind is slow, below least (0 to 1) of the median, and if two of its peers are clearly good with others. Clearly good
// is half of the way between least and the median: so a peer that is itself at the limit is no witness, and noise of a
// few percent names nobody.
func Judge(hcas []model.HCA, results []Result, least float64) []Verdict {
	out := make([]Verdict, len(hcas))
	for i := range hcas {
		out[i] = Verdict{HCA: hcas[i], State: NotMeasured}
	}
	for i := range results {
		r := &results[i]
		for _, end := range []int{r.Pair.A, r.Pair.B} {
			v := &out[end]
			best := &v.Alone
			if r.Together {
				best = &v.Together
			}
			*best = max(*best, r.rate())
			if peer := r.Pair.A + r.Pair.B - end; r.Error != "" {
				v.Errors = append(v.Errors, "with "+hcas[peer].String()+": "+r.Error)
			}
		}
	}
	for _, j := range judgings(hcas, results, least) {
		j.judge(hcas, out)
	}
	return out
}

func judgings(hcas []model.HCA, results []Result, least float64) []*judging {
	type kind struct {
		together bool
		protocol string
		rate     int64
	}
	kinds := map[kind]*judging{}
	var out []*judging
	for i := range results {
		r := &results[i]
		if r.rate() <= 0 {
			continue
		}
		k := kind{r.Together, hcas[r.Pair.A].Protocol, min(hcas[r.Pair.A].RateGbps, hcas[r.Pair.B].RateGbps)}
		if kinds[k] == nil {
			kinds[k] = &judging{}
			out = append(out, kinds[k])
		}
		kinds[k].results = append(kinds[k].results, r)
	}
	for _, j := range out {
		best := map[int]float64{}
		for _, r := range j.results {
			best[r.Pair.A], best[r.Pair.B] = max(best[r.Pair.A], r.rate()), max(best[r.Pair.B], r.rate())
		}
		var rates []float64
		for _, rate := range best {
			rates = append(rates, rate)
		}
		slices.Sort(rates)
		j.reference = rates[len(rates)/2]
		j.least = least * j.reference
	}
	return out
}

// judge adds to the verdicts what these pairs say. A worse verdict of another kind of stage stays.
func (j *judging) judge(hcas []model.HCA, out []Verdict) {
	clear := (j.least + j.reference) / 2
	slow, fine, witnessed := map[int][]int{}, map[int]bool{}, map[int][]int{}
	for _, r := range j.results {
		for _, end := range []int{r.Pair.A, r.Pair.B} {
			peer := r.Pair.A + r.Pair.B - end
			if r.rate() < j.least {
				slow[end] = append(slow[end], peer)
			} else {
				fine[end] = true
			}
			if r.rate() >= clear {
				witnessed[end] = append(witnessed[end], peer)
			}
		}
	}
	named := map[int]bool{}
	for end, peers := range slow {
		good := map[int]bool{}
		for _, peer := range peers {
			if slices.ContainsFunc(witnessed[peer], func(other int) bool { return other != end }) {
				good[peer] = true
			}
		}
		named[end] = !fine[end] && len(good) >= peersWanted
	}
	for end := range out {
		if len(slow[end]) == 0 && !fine[end] {
			continue
		}
		state := Good
		switch {
		case named[end]:
			state = Slow
		case len(j.results) == 1: // it is compared with itself
			state = Unclear
		case !fine[end] || slices.ContainsFunc(slow[end], func(peer int) bool { return !named[peer] }):
			state = Unclear
		}
		v := &out[end]
		if worse(state) <= worse(v.State) {
			continue
		}
		v.State, v.Least, v.SlowWith = state, round(j.least), nil
		for _, peer := range slow[end] {
			v.SlowWith = append(v.SlowWith, hcas[peer].String())
		}
	}
}

func worse(s State) int { return slices.Index([]State{NotMeasured, Good, Unclear, Slow}, s) }

// Slowest returns the named HCAs, the slowest first.
func Slowest(verdicts []Verdict) (out []Verdict) {
	for _, v := range verdicts {
		if v.State == Slow {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b Verdict) int { return cmp.Compare(a.lowest(), b.lowest()) })
	return out
}

// lowest is the lower of the measured rates.
func (v *Verdict) lowest() float64 {
	lowest := math.Inf(1)
	for _, rate := range []float64{v.Alone, v.Together} {
		if rate > 0 {
			lowest = min(lowest, rate)
		}
	}
	return lowest
}

func round(gbps float64) float64 { return math.Round(gbps*1000) / 1000 }
