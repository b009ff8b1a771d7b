package bench

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// figures are what was measured of one side, by unit.
type figures map[string]float64

// report gives figures to benchstat as a sub-benchmark. They were measured before, side by
// side with those of the others.
func report(b *testing.B, name string, f figures) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		for range b.N { // nothing is left to do
		}
		if _, timed := f["ns/op"]; !timed {
			b.ReportMetric(0, "ns/op") // leaves it out
		}
		for _, unit := range slices.Sorted(maps.Keys(f)) {
			b.ReportMetric(f[unit], unit)
		}
	})
}

// times are how long something took, again and again.
type times []time.Duration

// quantile is the time that so much of all took no longer than.
func (d times) quantile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(d))
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)])
}

func (d times) median() float64 { return d.quantile(0.5) }

// figures are median and p99.
func (d times) figures() figures {
	return figures{"ns/op": d.median(), "p99-ns": d.quantile(0.99)}
}

// took measures f.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// inTurn calls f for each element of a round, in one order and then in the other, so that
// what one leaves behind hits all alike.
func inTurn[T any](round int, all []T, f func(T)) {
	if round%2 == 0 {
		for _, one := range all {
			f(one)
		}
		return
	}
	for _, one := range slices.Backward(all) {
		f(one)
	}
}

// perOp divides the differences of counters.
func perOp(before, after map[string]int, n int) map[string]float64 {
	out := map[string]float64{}
	for name, count := range after {
		if count > before[name] {
			out[name] = float64(count-before[name]) / float64(n)
		}
	}
	return out
}
